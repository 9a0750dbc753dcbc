"""What ``npu-smi`` prints, read without running it."""

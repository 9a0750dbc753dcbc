"""The devices of this machine, probed with ``npu-smi``."""

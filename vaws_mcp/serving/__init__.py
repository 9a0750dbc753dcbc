"""``vllm serve`` as a named, managed execution: command, readiness, stop."""

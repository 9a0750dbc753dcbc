"""What the worker does on request: run commands, read and write files, look at the machine."""

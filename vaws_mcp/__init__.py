"""MCP server and command line for work on remote Ascend NPU containers."""

__version__ = "0.1.0"

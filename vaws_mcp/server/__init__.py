"""The MCP front door: tools, progress notifications, cancellation. No logic."""

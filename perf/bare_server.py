"""The yardstick of `startup.py`: an MCPServer of the SDK with N tools of one argument and nothing else."""

import sys

from mcp.server.mcpserver import MCPServer


def main(count: int) -> None:
    """Serve ``count`` one-argument tools over stdio."""
    server = MCPServer("bare", log_level="WARNING")
    for number in range(count):

        def tool(text: str) -> str:
            """Answer with the text."""
            return text

        server.add_tool(tool, name=f"tool_{number}", description="Answer with the text.")
    server.run("stdio")


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""``remote-dev mcp``."""

from vaws_mcp.cli.commands import Parser


def run(_name: str, words: list[str]) -> int:
    """Serve MCP over standard input and output until the client closes it."""
    parser = Parser(prog="remote-dev mcp", description="Speak MCP over stdio; a client starts this command.")
    parser.parse(words)
    from vaws_mcp.server.stdio import serve

    return serve()

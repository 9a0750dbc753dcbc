"""``remote-dev mcp``."""

import os

from vaws_mcp.cli.commands import Parser


def run(_name: str, words: list[str]) -> int:
    """Serve MCP over standard input and output until the client closes it."""
    parser = Parser(prog="remote-dev mcp", description="Speak MCP over stdio; a client starts this command.")
    parser.add_argument("--read-only", action="store_true", help="Refuse every operation that could change something.")
    if parser.parse(words).read_only:
        from vaws_mcp.endpoint.policy import READ_ONLY_VARIABLE

        os.environ[READ_ONLY_VARIABLE] = "1"  # runs that the server starts inherit it
    from vaws_mcp.server.stdio import serve

    return serve()

"""``remote-dev``: choose what to do, with as few imports as that takes."""

import sys
from collections.abc import Sequence

from vaws_mcp import __version__

EXIT_READER_GONE = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Without a command: MCP when stdin is no terminal, else help."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words and not sys.stdin.isatty():
        words = ["mcp"]
    first = words[0] if words else "--help"
    if first == "mcp" and len(words) == 1:
        from vaws_mcp.server.stdio import serve

        return serve()
    if first in ("--version", "-V"):
        print(f"remote-dev {__version__}")
        return 0
    from vaws_mcp.cli.commands import run_command
    from vaws_mcp.cli.output import give_up_stdout, open_streams

    open_streams()
    try:
        code = run_command(words)
        sys.stdout.flush()
    except BrokenPipeError:
        give_up_stdout()
        return EXIT_READER_GONE
    return code

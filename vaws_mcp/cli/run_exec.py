"""``remote-dev run-exec``: the process of a run. Started by us, not by people."""

import sys
from functools import partial
from pathlib import Path

from vaws_mcp.cli.commands import Parser


def run(_name: str, words: list[str]) -> int:
    """Carry out the run whose request arrives on standard input."""
    parser = Parser(prog="remote-dev run-exec", description="The process of a run; started by remote-dev itself.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--lock-handle", type=int, required=True)
    given = parser.parse(words)
    import anyio

    from vaws_mcp.catalog import BY_NAME
    from vaws_mcp.dispatch.detach import execute_run
    from vaws_mcp.store.statedir import find_state_dir

    raw = sys.stdin.buffer.read()
    return anyio.run(partial(execute_run, BY_NAME, given.directory, given.lock_handle, raw, find_state_dir()))

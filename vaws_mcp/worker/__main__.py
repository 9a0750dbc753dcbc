"""``python -m vaws_worker`` serves a connection on standard input and output; ``supervise DIR`` is a supervisor."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from types import FrameType
from typing import List, Optional

READ_BYTES = 1 << 18


def main(arguments: List[str]) -> int:
    """Run the part of the worker that the arguments name; returns the exit status."""
    from .homes import hold, own_home

    hold(own_home())
    if arguments[:1] == ["supervise"] and len(arguments) == 2:
        from .supervisor.main import supervise

        return supervise(arguments[1])
    if arguments:
        sys.stderr.write("usage: python -m vaws_worker [supervise DIR]\n")
        return 2
    return _serve()


def _serve() -> int:
    from .engine.child import UNDERTAKER
    from .engine.linux import become_subreaper
    from .serve import Server

    _seal_descriptors()
    in_fd = _move(0, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    out_fd = _move(1, 2)
    if become_subreaper():
        threading.Thread(target=UNDERTAKER.work, name="vaws-undertaker", daemon=True).start()
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, _end_connection)
    source = io.BufferedReader(io.FileIO(in_fd), READ_BYTES)
    return Server(source, out_fd).serve()


def _end_connection(signum: int, _frame: Optional[FrameType]) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _ignore)
    raise InterruptedError(f"signal {signum}")


def _ignore(_signum: int, _frame: Optional[FrameType]) -> None:
    """Do nothing; unlike SIG_IGN this is not passed on to commands."""


def _seal_descriptors() -> None:
    """Let no descriptor that we were started with, other than 0, 1 and 2, reach a command."""
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return
    for name in names:
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed again
                os.set_inheritable(int(name), False)


def _move(fd: int, replacement: int) -> int:
    """Give the stream at ``fd`` a descriptor of its own and put ``replacement`` in its place."""
    moved = os.dup(fd)
    os.dup2(replacement, fd)
    return moved


def start(arguments: List[str]) -> None:
    """Run ``main`` and end the process at once: threads that wait for a frozen process must not keep it alive."""
    status = main(arguments)
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    start(sys.argv[1:])

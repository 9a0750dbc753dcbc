"""Waiting: for a signal or for a connection."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType
from typing import Iterable, List, Optional

from ..refusal import Refusal


class Signals:
    """Turns SIGTERM and SIGCHLD into wake-ups of ``wait``. Handlers, unlike SIG_IGN, are not passed on by exec."""

    def __init__(self) -> None:
        self.stop_asked = False
        self._read_fd, write_fd = os.pipe()
        for fd in (self._read_fd, write_fd):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        for signum in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGINT):
            signal.signal(signum, self._note)

    def _note(self, signum: int, _frame: Optional[FrameType]) -> None:
        if signum == signal.SIGTERM:
            self.stop_asked = True

    def wait(self, seconds: float, fds: Iterable[int] = ()) -> List[int]:
        """Sleep until a signal comes or one of ``fds`` is readable, at most ``seconds``; returns the readable ones."""
        poller = select.poll()
        for fd in (self._read_fd, *fds):
            poller.register(fd, select.POLLIN)
        ready = [fd for fd, _ in poller.poll(int(seconds * 1000) + 1)]
        if self._read_fd in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._read_fd, 4096)
        return [fd for fd in ready if fd != self._read_fd]

    def check(self) -> None:
        """Raise the refusal of an execution that is to stop before it was started."""
        if self.stop_asked:
            raise Refusal("cancelled", "stopped before it was started")

    def pause(self, seconds: float) -> None:
        """Wait, and raise when the order to stop has come."""
        self.wait(seconds)
        self.check()

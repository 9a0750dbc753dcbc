"""What the other end sends, read by the thread that uses it, always into the same memory.

A thread of its own that reads ahead would cost more than it saves: the SSH server reads ahead already.
"""

from __future__ import annotations

import os
import select
from io import BufferedReader
from typing import Any, Optional, Union

from .link import LinkLost

READ_BYTES = 1 << 18
GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class PipeInbox:
    """The worker's standard input. ``source`` may have read ahead; that is taken first, and it is not used again."""

    def __init__(self, source: BufferedReader[Any]) -> None:
        self._fd = source.fileno()
        self._ahead = _read_ahead(source)
        self._memory = memoryview(bytearray(READ_BYTES))
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN | GONE)
        self._closed: Optional[str] = None

    def take(self, timeout_s: Optional[float]) -> Union[bytes, memoryview]:
        """Return what has arrived, valid until the next call; waits for it. Raises: LinkLost."""
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        if self._closed is None and not self._poll.poll(None if timeout_s is None else timeout_s * 1000):
            raise LinkLost(f"nothing came for {timeout_s:.0f} s")
        try:
            count = 0 if self._closed is not None else os.readv(self._fd, [self._memory])
        except OSError as error:
            self.close(str(error))
            raise LinkLost(str(error)) from None
        if not count:
            self.close("the connection ended")
            raise LinkLost(self._closed)
        return self._memory[:count]

    def close(self, why: str) -> None:
        """Take nothing more."""
        self._closed = self._closed or why

    @property
    def waiting(self) -> bool:
        """Whether something has arrived."""
        return bool(self._ahead) or (self._closed is None and bool(self._state() & select.POLLIN))

    @property
    def closed(self) -> Optional[str]:
        """Why nothing more will come, or None; bytes that came before may still wait."""
        if self._closed is None and self._state() & GONE:
            return "the connection ended"
        return self._closed

    def _state(self) -> int:
        return sum(event for _fd, event in self._poll.poll(0))


def _read_ahead(source: BufferedReader[Any]) -> bytes:
    """Return what a reader holds, and perhaps more, without waiting."""
    os.set_blocking(source.fileno(), False)
    try:
        return source.read1(READ_BYTES)
    finally:
        os.set_blocking(source.fileno(), True)

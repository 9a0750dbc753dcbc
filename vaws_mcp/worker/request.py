"""One request in work: its parameters, its cancellation, its further input and its events."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional, Tuple

from .params import Params
from .refusal import Refusal

Answer = Tuple[Dict[str, Any], bytes]
Emit = Callable[[Dict[str, Any], bytes], None]


class Waker:
    """A pipe that wakes a thread which sleeps in ``poll``; each pooled thread has one and keeps it."""

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        os.set_blocking(self._write_fd, False)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._read_fd

    def wake(self) -> None:
        """Make the descriptor readable; a full pipe is readable already."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._write_fd, b"w")

    def clear(self) -> None:
        """Take all wake-ups out of the pipe."""
        try:
            while len(os.read(self._read_fd, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def close(self) -> None:
        """Close both ends."""
        os.close(self._read_fd)
        os.close(self._write_fd)


class Call(NamedTuple):
    """What a request frame says. Units: deadline_s in seconds from its arrival."""

    id: int
    method: str
    params: Dict[str, Any]
    body: bytes
    deadline_s: Optional[float]


class Request:
    """A request while its method works on it. The reader thread cancels and feeds it, its own thread does the rest."""

    def __init__(self, call: Call, emit: Emit) -> None:
        self.id = call.id
        self.method = call.method
        self.params = Params(call.params, call.method + ": ")
        self.body = call.body
        self.deadline = None if call.deadline_s is None else time.monotonic() + call.deadline_s
        self.cancelled = False
        self.connection_lost = False
        self.chunks: Deque[bytes] = deque()
        self.chunks_ended = False
        self.waker: Optional[Waker] = None
        self.on_cancel: Optional[Callable[[], None]] = None
        self._emit = emit

    def cancel(self) -> None:
        """Ask the method to end; it answers with the error ``cancelled`` after it has cleaned up."""
        self.cancelled = True
        self._wake()
        interrupt = self.on_cancel
        if interrupt is not None:
            interrupt()

    def abandon(self) -> None:
        """Cancel because nobody is there any more to take the answer."""
        self.connection_lost = True
        self.cancel()

    def feed(self, chunk: bytes, ended: bool) -> None:
        """Take more standard input."""
        if chunk:
            self.chunks.append(chunk)
        if ended:
            self.chunks_ended = True
        self._wake()

    def _wake(self) -> None:
        waker = self.waker
        if waker is not None:
            waker.wake()

    def emit(self, event: str, fields: Dict[str, Any], body: bytes = b"") -> None:
        """Send an event frame."""
        head: Dict[str, Any] = {"id": self.id, "event": event}
        head.update(fields)
        self._emit(head, body)

    def interrupted(self) -> Optional[str]:
        """Return ``cancelled`` or ``deadline`` when the method must end, else None."""
        if self.cancelled:
            return "cancelled"
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return "deadline"
        return None

    def refusal(self, code: str, details: Optional[Dict[str, Any]] = None) -> Refusal:
        """Return the error that answers an interrupted request."""
        text = "was cancelled" if code == "cancelled" else "did not end before its deadline"
        layer = "caller" if code == "cancelled" else "remote_env"
        return Refusal(code, f"{self.method} {text}", layer, retry_safe=False, details=details)

    def check(self) -> None:
        """Raise the refusal of an interrupted request; methods call it between steps that take time."""
        code = self.interrupted()
        if code is not None:
            raise self.refusal(code)

    def pause(self, seconds: float) -> None:
        """Sleep at most ``seconds``; a cancel or the deadline ends it early with the refusal."""
        if self.deadline is not None:
            seconds = min(seconds, max(0.0, self.deadline - time.monotonic()))
        if self.waker is None:
            time.sleep(seconds)
        else:
            poller = select.poll()
            poller.register(self.waker.fileno(), select.POLLIN)
            if poller.poll(max(1, int(seconds * 1000))):
                self.waker.clear()
        self.check()

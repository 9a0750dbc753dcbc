"""Standard input of a command: nothing, the request's body, or the body and then what the caller sends."""

from __future__ import annotations

import os
import tempfile
import threading

from ..request import Request

_PIPE_BYTES = 1 << 15  # a body up to this size fits into a new pipe on every kernel
_END_OF_TERMINAL_INPUT = b"\x04"


class Stdin:
    """Both ends of a command's standard input. ``terminal_fd`` is the controlling side when it is a terminal."""

    def __init__(self, request: Request, is_open: bool, terminal_fd: int = -1) -> None:
        self.write_fd = -1
        self.child_fd = -1
        self._request = request
        self._is_terminal = terminal_fd >= 0
        self._rest = memoryview(b"")
        self._lock = threading.Lock()
        body = request.body
        if self._is_terminal:
            self.write_fd = os.dup(terminal_fd)
            self._rest = memoryview(body)
        elif is_open:
            self.child_fd, self.write_fd = os.pipe()
            os.set_blocking(self.write_fd, False)
            self._rest = memoryview(body)
        elif not body:
            self.child_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        elif len(body) <= _PIPE_BYTES:
            self.child_fd, write_fd = os.pipe()
            os.write(write_fd, body)
            os.close(write_fd)
        else:
            self.child_fd = _file_with(body)

    def pending(self) -> bool:
        """Tell whether something that was sent is not written yet."""
        return bool(self._rest or self._request.chunks)

    def wanted(self) -> bool:
        """Tell whether there is something to write now; an input that has come to its end is closed."""
        if self._request.chunks_ended and self.write_fd >= 0 and not self.pending():
            if not self._is_terminal:
                self.close_pipe()
                return False
            self._request.chunks_ended = False
            self._rest = memoryview(_END_OF_TERMINAL_INPUT)
        return self.write_fd >= 0 and self.pending()

    def write(self) -> None:
        """Write what the pipe takes; close it when nobody reads it any more."""
        if not self._rest and self._request.chunks:
            self._rest = memoryview(self._request.chunks.popleft())
        try:
            if self._rest:
                self._rest = self._rest[os.write(self.write_fd, self._rest) :]
        except BlockingIOError:
            return
        except OSError:  # EPIPE, and EIO of a terminal
            self.close_pipe()

    def end(self) -> None:
        """Close the input after what was sent so far; whoever serves the pipes must be woken up."""
        self._request.chunks_ended = True

    def duplicate(self) -> int:
        """Return a further descriptor to write to, or -1 when the input is closed."""
        with self._lock:
            return -1 if self.write_fd < 0 else os.dup(self.write_fd)

    def close_pipe(self) -> None:
        """Close our end, which the command sees as the end of its input."""
        with self._lock:
            if self.write_fd >= 0:
                os.close(self.write_fd)
                self.write_fd = -1

    def close_child_end(self) -> None:
        """Close the child's end here, once the child has it."""
        if self.child_fd >= 0:
            os.close(self.child_fd)
            self.child_fd = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_child_end()
        self.close_pipe()


def _file_with(body: bytes) -> int:
    with tempfile.TemporaryFile() as stream:
        stream.write(body)
        stream.flush()
        stream.seek(0)
        return os.dup(stream.fileno())

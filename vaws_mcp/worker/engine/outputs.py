"""The output of a command: two pipes that are read at bounded memory, with everything in log files when asked for.

Pipes and not files, because a script that says ``> /dev/stderr`` opens its stderr again and would truncate a file.
A background child may hold a pipe long after the command has ended: then a thread of ours goes on reading it, so that
the child neither blocks nor dies of SIGPIPE.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import threading
from collections import deque
from typing import Any, Deque, Dict, List, Optional

STREAM_NAMES = ("stdout", "stderr")
READ_BYTES = 1 << 16
_BUSY_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031


class Stream:
    """The reading end of one output pipe, what is kept of it, and its log file if it has one.

    Units: lengths in bytes; ``total`` counts what was read, kept or not.
    """

    def __init__(self, name: str, limit: int, log_path: Optional[str]) -> None:
        self.name = name
        self.total = 0
        self.ended = False
        self._head_limit = limit // 2
        self._tail_limit = limit - limit // 2
        self._head = bytearray()
        self._tail: Deque[bytes] = deque()
        self._tail_bytes = 0
        self._enlarged = False
        self.log_error: Optional[str] = None
        self._log_fd = None if log_path is None else _open_log(log_path)
        self.fd, self.child_fd = os.pipe()
        os.set_blocking(self.fd, False)

    def read(self) -> bytes:
        """Take what is in the pipe now, up to 64 KiB; empty when there is nothing or when it has ended."""
        try:
            chunk = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return b""
        if not chunk:
            self.ended = True
            return b""
        self.total += len(chunk)
        self._keep(chunk)
        self._log(chunk)
        if len(chunk) == READ_BYTES and not self._enlarged:
            self._enlarge()
        return chunk

    def _enlarge(self) -> None:
        self._enlarged = True
        with contextlib.suppress(OSError):  # a user may own only so much pipe memory; the small pipe works too
            fcntl.fcntl(self.fd, _F_SETPIPE_SZ, _BUSY_PIPE_BYTES)

    def _keep(self, chunk: bytes) -> None:
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail.append(chunk)
            self._tail_bytes += len(chunk)
            while self._tail and self._tail_bytes - len(self._tail[0]) >= self._tail_limit:
                self._tail_bytes -= len(self._tail.popleft())

    def _log(self, chunk: bytes) -> None:
        if self._log_fd is None or self.log_error is not None:
            return
        try:
            view = memoryview(chunk)
            while view:
                view = view[os.write(self._log_fd, view) :]
        except OSError as error:
            self.log_error = error.strerror or str(error)

    def kept(self) -> List[bytes]:
        """Return [head, tail]; the tail is empty when nothing is missing between them."""
        tail = b"".join(self._tail)[-self._tail_limit :] if self._tail_limit else b""
        if len(self._head) + len(tail) == self.total:
            return [bytes(self._head) + tail, b""]
        return [bytes(self._head), tail]

    def close_child_end(self) -> None:
        """Close the writing end here, once the child has it."""
        if self.child_fd >= 0:
            os.close(self.child_fd)
            self.child_fd = -1

    def close(self) -> None:
        """Close everything that belongs to the stream."""
        self.close_child_end()
        os.close(self.fd)
        if self._log_fd is not None:
            os.close(self._log_fd)


def _open_log(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)


def open_streams(limit: int, folder: Optional[str]) -> List[Stream]:
    """Open stdout and stderr of one command; ``folder``, made when missing, gets the complete logs."""
    streams: List[Stream] = []
    if folder is not None:
        os.makedirs(folder, 0o700, exist_ok=True)
    try:
        for name in STREAM_NAMES:
            path = None if folder is None else os.path.join(folder, name + ".log")
            streams.append(Stream(name, limit, path))
    except OSError:
        for stream in streams:
            stream.close()
        raise
    return streams


def describe(stream: Stream, kept: List[bytes]) -> Dict[str, Any]:
    """Return the JSON form of what is kept; the bytes themselves go into the body."""
    return {
        "bytes": stream.total,
        "kept_head": len(kept[0]),
        "kept_tail": len(kept[1]),
        "truncated": len(kept[0]) + len(kept[1]) < stream.total,
        "log_error": stream.log_error,
    }


class Sinks:
    """Reads the pipes that background children still hold, until they close them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: Dict[int, Stream] = {}
        self._poller = select.poll()
        self._wake_read, self._wake_write = -1, -1

    def adopt(self, stream: Stream) -> None:
        """Go on reading ``stream``: into its log when it has one, else into nothing."""
        with self._lock:
            self._streams[stream.fd] = stream
            if self._wake_read < 0:
                self._wake_read, self._wake_write = os.pipe()
                self._poller.register(self._wake_read, select.POLLIN)
                threading.Thread(target=self._work, name="vaws-sinks", daemon=True).start()
        os.write(self._wake_write, b"w")

    def _work(self) -> None:
        while True:
            with self._lock:
                for fd in self._streams:
                    self._poller.register(fd, select.POLLIN)
            for fd, _ in self._poller.poll():
                if fd == self._wake_read:
                    os.read(fd, 4096)
                else:
                    self._read(fd)

    def _read(self, fd: int) -> None:
        stream = self._streams[fd]
        stream.read()
        if stream.ended:
            self._poller.unregister(fd)
            with self._lock:
                del self._streams[fd]
            stream.close()


SINKS = Sinks()

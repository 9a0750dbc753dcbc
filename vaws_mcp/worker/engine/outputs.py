"""The output of a command: pipes that are read at bounded memory, with everything in log files when asked for.

Pipes and not files, because a script that says ``> /dev/stderr`` opens its stderr again and would truncate a file.
A background child may hold a pipe long after the command has ended: then a thread of ours goes on reading it, so that
the child neither blocks nor dies of SIGPIPE.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import termios
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from .lines import whole_characters

STREAM_NAMES = ("stdout", "stderr")
READ_BYTES = 1 << 16
_BUSY_PIPE_BYTES = 1 << 20
_F_SETPIPE_SZ = 1031


class Budget:
    """How many bytes the logs of one command may still take, all its streams together; None for no limit."""

    def __init__(self, limit: Optional[int] = None) -> None:
        self._left = limit

    def take(self, wanted: int) -> int:
        """Return how many of ``wanted`` bytes may be written, and count them as used."""
        if self._left is None:
            return wanted
        granted = min(wanted, self._left)
        self._left -= granted
        return granted


class Log:
    """A log file that holds the beginning of a stream; what it could not take is counted in ``dropped``."""

    def __init__(self, path: str, budget: Budget) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)
        self._budget = budget
        self.dropped = 0
        self.error: Optional[str] = None

    def write(self, chunk: bytes) -> None:
        """Append a chunk. After the first byte that was dropped nothing is written any more: there are no gaps."""
        if self.dropped:
            self.dropped += len(chunk)
            return
        view = memoryview(chunk)[: self._budget.take(len(chunk))]
        self.dropped = len(chunk) - len(view)
        if self.dropped:
            self.error = "the size limit of the log is reached"
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.dropped += len(view)
            self.error = error.strerror or str(error)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class Stream:
    """The reading end of one output pipe, what is kept of it, and its log file if it has one.

    ``on_overflow`` is called once, just before something would be lost because more came than is kept.
    Shapes: ``ends`` is (descriptor to read, descriptor for the child).
    Units: lengths in bytes; ``total`` counts what was read, kept or not.
    """

    def __init__(self, name: str, limit: int, ends: Tuple[int, int]) -> None:
        self.name = name
        self.total = 0
        self.ended = False
        self.on_overflow: Optional[Callable[[], None]] = None
        self.log: Optional[Log] = None
        self.log_error: Optional[str] = None
        self._limit = limit
        self._head_limit = limit // 2
        self._tail_limit = limit - limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._enlarged = False
        self.fd, self.child_fd = ends
        os.set_blocking(self.fd, False)

    def read(self) -> bytes:
        """Take what is in the pipe now, up to 64 KiB; empty when there is nothing or when it has ended."""
        try:
            chunk = os.read(self.fd, READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            if error.errno != errno.EIO:  # what a terminal says when nobody has it open any more
                raise
            chunk = b""
        if not chunk:
            self.ended = True
            return b""
        self._take(chunk)
        if len(chunk) == READ_BYTES and not self._enlarged:
            self._enlarge()
        return chunk

    def waiting(self) -> int:
        """Return how many bytes are in the pipe now."""
        count = array.array("i", [0])
        with contextlib.suppress(OSError):  # EIO of a terminal that nobody has open
            fcntl.ioctl(self.fd, termios.FIONREAD, count)
        return count[0]

    def _take(self, chunk: bytes) -> None:
        if self.on_overflow is not None and self.total + len(chunk) > self._limit:
            overflow, self.on_overflow = self.on_overflow, None
            overflow()
        self.total += len(chunk)
        if self.log is not None:
            self.log.write(chunk)
            self.log_error = self.log.error
        self._keep(chunk)

    def _enlarge(self) -> None:
        self._enlarged = True
        with contextlib.suppress(OSError):  # a user may own only so much pipe memory; the small pipe works too
            fcntl.fcntl(self.fd, _F_SETPIPE_SZ, _BUSY_PIPE_BYTES)

    def _keep(self, chunk: bytes) -> None:
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if not chunk or not self._tail_limit:
            return
        self._tail += chunk[-self._tail_limit :]
        if len(self._tail) > 2 * self._tail_limit + READ_BYTES:
            del self._tail[: -self._tail_limit]

    def kept(self) -> List[bytes]:
        """Return [head, tail]; the tail is empty when nothing is missing between them."""
        tail = bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""
        if len(self._head) + len(tail) == self.total:
            return [bytes(self._head) + tail, b""]
        return [bytes(self._head), tail]

    def keep_nothing(self) -> None:
        """Free what is kept, and keep nothing of what comes: from now on the log has it all."""
        self._head_limit = self._tail_limit = 0
        self._head.clear()
        self._tail.clear()

    def open_log(self, path: str, budget: Budget) -> None:
        """Write everything from now on to a log, and what came before, of which nothing may be missing.

        Raises: OSError.
        """
        self.on_overflow = None
        self.log = Log(path, budget)
        self.log.write(b"".join(self.kept()))
        self.log_error = self.log.error

    @property
    def dropped(self) -> int:
        """How many bytes the log could not take."""
        return 0 if self.log is None else self.log.dropped

    def close_child_end(self) -> None:
        """Close the writing end here, once the child has it."""
        if self.child_fd >= 0:
            os.close(self.child_fd)
            self.child_fd = -1

    def close(self) -> None:
        """Close everything that belongs to the stream."""
        self.close_child_end()
        os.close(self.fd)
        if self.log is not None:
            self.log.close()


def open_streams(limit: int, *, terminal: bool = False) -> List[Stream]:
    """Open stdout and stderr of one command; a terminal is one stream, stdout.

    Raises: OSError.
    """
    if terminal:
        return [Stream("stdout", limit, _open_terminal())]
    streams: List[Stream] = []
    try:
        for name in STREAM_NAMES:
            streams.append(Stream(name, limit, os.pipe()))
    except OSError:
        for stream in streams:
            stream.close()
        raise
    return streams


def _open_terminal() -> Tuple[int, int]:
    import struct

    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    return master, slave


def pipe_of(fd: int) -> Optional[str]:
    """Return what ``/proc`` calls a pipe, at both of its ends; None for a terminal, or without ``/proc``."""
    try:
        link = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None
    return link if link.startswith("pipe:") else None


def open_logs(streams: List[Stream], folder: str, budget: Budget) -> None:
    """Give every stream that has none a log in ``folder``, which is made when missing.

    Raises: OSError.
    """
    os.makedirs(folder, 0o700, exist_ok=True)
    for stream in streams:
        if stream.log is None:
            stream.open_log(os.path.join(folder, stream.name + ".log"), budget)


def describe(stream: Stream, kept: List[bytes], *, more_follows: bool = False) -> Dict[str, Any]:
    """Return the JSON form of what is kept; the bytes themselves go into the body.

    When more follows, a character that is not complete yet is taken out of ``kept`` and left for the reader of the
    log, who goes on at ``cursor``.
    """
    truncated = len(kept[0]) + len(kept[1]) < stream.total
    cursor = stream.total
    if more_follows:
        last = 1 if kept[1] else 0
        whole = whole_characters(kept[last])
        cursor -= len(kept[last]) - whole
        kept[last] = kept[last][:whole]
    return {
        "bytes": stream.total,
        "cursor": cursor,
        "kept_head": len(kept[0]),
        "kept_tail": len(kept[1]),
        "truncated": truncated,
        "dropped": stream.dropped,
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
        stream.on_overflow = None
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

"""Commands under way, written down so that a worker that is killed leaves none behind that nobody knows.

Each worker has a file in ``~/.vaws/inflight`` with one slot of fixed size for each command that has neither ended nor
become a job, and holds a lock on it for life. The next worker finds the file unlocked, ends the families in it, and
removes it. Nothing is synced to the disk: a reboot ends the processes too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
from typing import Iterator, List, NamedTuple, Optional

from ..facts import procfs
from ..facts.procfs import Identity
from .drain import Drained, Family, Pace, drain

SLOT_BYTES = 128
_GRACE_S = 2.0


class Entry(NamedTuple):
    """A command under way: its root process and the assignment in the environment of its family."""

    root: Identity
    marker: str


def folder() -> str:
    """Return the directory of these files."""
    return os.path.join(os.path.expanduser("~"), ".vaws", "inflight")


class InFlight:
    """The slots of this worker. A full disk is no reason to refuse a command: it then simply has no slot."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fd: Optional[int] = None
        self._free: List[int] = []
        self._used = 0

    def enter(self, root: Optional[Identity], marker: str) -> Optional[int]:
        """Write a command down and return its slot."""
        if root is None:
            return None
        line = b"%d %d %s" % (root.pid, root.start_ticks, marker.encode("ascii"))
        try:
            with self._lock:
                if self._fd is None:
                    self._fd = _create()
                slot = self._free.pop() if self._free else self._used
                self._used = max(self._used, slot + 1)
                os.pwrite(self._fd, line.ljust(SLOT_BYTES - 1) + b"\n", slot * SLOT_BYTES)
        except OSError as error:
            sys.stderr.write(f"vaws worker: cannot note a command under way: {error}\n")
            return None
        return slot

    def leave(self, slot: Optional[int]) -> None:
        """Clear a slot: its command has ended, or is known as a job from now on."""
        if slot is None or self._fd is None:
            return
        with self._lock, contextlib.suppress(OSError):
            os.pwrite(self._fd, b"".ljust(SLOT_BYTES - 1) + b"\n", slot * SLOT_BYTES)
            self._free.append(slot)

    def close(self) -> None:
        """Remove the file of a worker that ends in order."""
        with self._lock:
            if self._fd is None:
                return
            with contextlib.suppress(OSError):
                os.unlink(_path(os.getpid()))
            os.close(self._fd)
            self._fd = None


def _namespace() -> str:
    """Name the pid namespace: pids of another container mean nothing here."""
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return "0"


def _path(pid: int) -> str:
    return os.path.join(folder(), f"{procfs.boot_id()}.{_namespace()}.{pid}")


def _create() -> int:
    os.makedirs(folder(), 0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    fd = os.open(_path(os.getpid()), flags, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return fd


def end_leftovers() -> List[Drained]:
    """End what killed workers of this user, boot and pid namespace left under way, and forget them."""
    ended: List[Drained] = []
    mine = f"{procfs.boot_id()}.{_namespace()}."
    try:
        names = os.listdir(folder())
    except OSError:
        return ended
    for name in names:
        path = os.path.join(folder(), name)
        if name.split(".")[0] != procfs.boot_id():
            with contextlib.suppress(OSError):
                os.unlink(path)  # of an earlier boot: nothing of it can live
        elif name.startswith(mine):
            ended += _end_file(path)
    return ended


def _end_file(path: str) -> List[Drained]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ended = [drain(_family(entry), Pace(_GRACE_S)) for entry in _entries(os.pread(fd, 1 << 20, 0))]
        os.unlink(path)
    except OSError:
        return []  # its worker lives, or another worker is at it
    finally:
        os.close(fd)
    return ended


def _entries(raw: bytes) -> Iterator[Entry]:
    for line in raw.splitlines():
        words = line.split()
        if len(words) == 3 and words[0].isdigit() and words[1].isdigit():
            yield Entry(Identity(int(words[0]), int(words[1])), words[2].decode("ascii", "replace"))


def _family(entry: Entry) -> Family:
    """Find the family by its root, if that still lives, by its session and by its marker."""
    leader = procfs.read_process(entry.root.pid)
    # A foreign process may have got the pid, and with it the session id, after the root was gone.
    known = leader is None or leader.identity == entry.root
    return Family(entry.root, entry.root.pid if known else None, entry.marker.encode("ascii"))


IN_FLIGHT = InFlight()

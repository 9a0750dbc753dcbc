"""The queue: who came first among those who want the same things.

A ticket is a file ``<number>.ticket`` that its owner keeps locked, so it dies with its owner. Numbers are given out,
and dead tickets removed, only under ``queue.lock``; a number that is in use is therefore never given out again. The
file is locked before it gets its name, so no ticket is ever seen unlocked while its owner lives.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Dict, FrozenSet, Generator, Iterable, List, NamedTuple, Optional, Tuple

from . import lease_dir

ALL_DEVICES = "*"
PORT_PREFIX = "port-"
_SUFFIX = ".ticket"
_QUEUE_BOUND_S = 10.0


class Entry(NamedTuple):
    """One living ticket: what it waits for, and for whom."""

    number: int
    keys: FrozenSet[str]
    record: Dict[str, Any]


def overlap(one: Iterable[str], other: Iterable[str]) -> bool:
    """Tell whether two requests could ever be given the same thing. ``*`` stands for any device."""
    a, b = frozenset(one), frozenset(other)
    return bool(a & b) or (ALL_DEVICES in a and _has_device(b)) or (ALL_DEVICES in b and _has_device(a))


def _has_device(keys: FrozenSet[str]) -> bool:
    return any(not key.startswith(PORT_PREFIX) for key in keys)


def ahead(number: int, keys: Iterable[str], entries: Iterable[Entry]) -> List[Entry]:
    """Return those that go before ``number``: they came earlier and want something that it wants too."""
    wanted = frozenset(keys)
    return sorted(entry for entry in entries if entry.number < number and overlap(entry.keys, wanted))


class QueueBusyError(Exception):
    """Another process keeps the queue's lock much longer than it may."""


class Ticket:
    """One's place in the queue of a lease directory, from ``take`` until ``drop`` or the end of the process."""

    def __init__(self, folder: str, number: int, fd: int, keys: FrozenSet[str]) -> None:
        self.number = number
        self.keys = keys
        self._folder = folder
        self._fd = fd

    def ahead(self) -> List[Entry]:
        """Return the living tickets that go before this one, first come first. Raises: OSError."""
        return ahead(self.number, self.keys, living(self._folder, self.number))

    def valid(self) -> bool:
        """Tell whether the ticket is still there; somebody may have deleted the directory."""
        return lease_dir.is_at(self._fd, _path(self._folder, self.number))

    def drop(self) -> None:
        """Leave the queue."""
        if self.valid():
            with contextlib.suppress(OSError):
                os.unlink(_path(self._folder, self.number))
        os.close(self._fd)


def take(folder: str, keys: Iterable[str], record: Dict[str, Any], pause: Callable[[float], None]) -> Ticket:
    """Join the queue behind everybody who is in it. ``pause`` sleeps and may raise to give up.

    Raises: OSError when the directory cannot be used; QueueBusyError.
    """
    wanted = frozenset(keys)
    with _queue_locked(folder, pause):
        number = 1 + max([0, *(number for number, _ in _names(folder))])
        _remove_dead(folder)
        draft = lease_dir.draft_of(_path(folder, number))
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            os.fchmod(fd, 0o644)
            lease_dir.try_flock(fd)  # nobody else has it: it was made just now, under the queue's lock
            lease_dir.write_record(fd, {**record, "keys": sorted(wanted)})
            os.rename(draft, _path(folder, number))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            os.close(fd)
            raise
    return Ticket(folder, number, fd, wanted)


@contextlib.contextmanager
def _queue_locked(folder: str, pause: Callable[[float], None]) -> Generator[None, None, None]:
    path = os.path.join(folder, "queue.lock")
    limit = time.monotonic() + _QUEUE_BOUND_S
    wait_s = 0.001
    while True:
        fd = lease_dir.locked_now(path)
        if fd is not None:
            break
        if time.monotonic() >= limit:
            raise QueueBusyError(f"{path} has been locked by another process for {_QUEUE_BOUND_S:.0f} s")
        pause(wait_s)
        wait_s = min(wait_s * 1.5, 0.05)
    try:
        yield
    finally:
        os.close(fd)


def _remove_dead(folder: str) -> None:
    paths = [os.path.join(folder, name) for name in os.listdir(folder) if name.startswith(lease_dir.DRAFT)]
    paths += [path for _, path in _names(folder)]
    for path in paths:
        if not lease_dir.is_held(path):
            with contextlib.suppress(OSError):  # another user's file in a sticky directory stays, and counts as dead
                os.unlink(path)


def _path(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number}{_SUFFIX}")


def _names(folder: str) -> List[Tuple[int, str]]:
    found: List[Tuple[int, str]] = []
    for name in os.listdir(folder):
        if name.endswith(_SUFFIX) and name[: -len(_SUFFIX)].isdigit():
            found.append((int(name[: -len(_SUFFIX)]), os.path.join(folder, name)))
    return sorted(found)


def living(folder: str, below: Optional[int] = None) -> List[Entry]:
    """Return the tickets with a living owner; one whose contents cannot be read counts as wanting all devices.

    Raises: OSError when the directory cannot be read.
    """
    found: List[Entry] = []
    for number, path in _names(folder):
        if (below is None or number < below) and lease_dir.is_held(path):
            record = lease_dir.read_record(path) or {}
            keys: Any = record.pop("keys", None)
            found.append(Entry(number, frozenset(keys if isinstance(keys, list) else [ALL_DEVICES]), record))
    return found

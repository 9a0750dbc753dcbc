"""Leases: the right to use a device or a port, which the kernel takes back when its holder dies.

A lease is two things that only one process can have: an abstract unix socket, which all containers in one network
namespace share, and a lock on a file of the lease directory, which all share that mount it. Their descriptors are
closed on exec, and the supervisor never forks without exec, so no command keeps a lease alive.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import socket
import stat
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from ..facts import procfs
from . import lease_dir

_LONGEST_NAME = 107  # Linux: sun_path has 108 bytes, the first is NUL
_UNSAFE = re.compile(r"[^A-Za-z0-9._:-]")

Record = Dict[str, Any]


class Place(NamedTuple):
    """Where leases are taken: ``boot_id`` names the machine's run; ``folder`` is None when no directory is usable."""

    boot_id: str
    folder: Optional[str]


class Held(NamedTuple):
    """A lease in our hands; it ends when the last process that has these descriptors closes them."""

    key: str
    fds: List[int]

    def release(self) -> None:
        """Close the descriptors."""
        for fd in self.fds:
            os.close(fd)


def safe_key(key: str) -> str:
    """Return the key in a form that can be a part of a file name."""
    return _UNSAFE.sub("_", key)


def socket_name(place: Place, key: str, execution_id: Optional[str] = None) -> str:
    """Return the abstract name, without the NUL before it; with an id the name that tells who holds the lease."""
    name = f"vaws-{place.boot_id}-{key}"
    if execution_id is not None:
        return f"{name}={execution_id}"[:_LONGEST_NAME]
    if len(name) > _LONGEST_NAME:
        name = "vaws-" + hashlib.sha256(name.encode("utf-8")).hexdigest()
    return name


def _bound(name: str) -> Optional[int]:
    """Return a socket that has this abstract name, or None when another has it. Raises: OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.bind("\0" + name)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return sock.detach()


def lock_path(folder: str, key: str) -> str:
    """Return the lock file of a key."""
    return os.path.join(folder, key + ".lock")


def take(place: Place, key: str, record: Record) -> Optional[Held]:
    """Take one lease without waiting; None when another holder has it. Raises: OSError, with nothing kept."""
    held = Held(key, [])
    try:
        if _take_into(held, place, record):
            return held
    except BaseException:
        held.release()
        raise
    held.release()
    return None


def _take_into(held: Held, place: Place, record: Record) -> bool:
    fd = _bound(socket_name(place, held.key))
    if fd is None:
        return False
    held.fds.append(fd)
    if place.folder is not None:
        lock = lease_dir.locked_now(lock_path(place.folder, held.key))
        if lock is None:
            return False
        held.fds.append(lock)
        note_holder(lock, record)
    with contextlib.suppress(OSError):  # it only tells who we are, where no directory is shared
        name = _bound(socket_name(place, held.key, str(record.get("execution_id"))))
        if name is not None:
            held.fds.append(name)
    return True


def note_holder(lock_fd: int, record: Record) -> None:
    """Write who holds a lease; the lease holds without it, as on a full disk, and then the holder is not known."""
    with contextlib.suppress(OSError):
        lease_dir.write_record(lock_fd, record)


def take_all(place: Place, keys: Iterable[str], record: Record) -> List[Held]:
    """Take all these leases or none, without waiting. Raises: LeaseHeldError, OSError."""
    held: List[Held] = []
    try:
        for key in sorted(keys):
            held.append(_take_or_raise(place, key, record))
    except BaseException:
        release_all(held)
        raise
    return held


def _take_or_raise(place: Place, key: str, record: Record) -> Held:
    lease = take(place, key, record)
    if lease is None:
        raise LeaseHeldError(key)
    return lease


class LeaseHeldError(Exception):
    """A lease that was wanted is in other hands."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def release_all(held: Iterable[Held]) -> None:
    """Give leases back."""
    for lease in held:
        lease.release()


def retaken(place: Place, lease: Held, record: Record) -> bool:
    """Lock the file anew after somebody deleted it from under us; False when another has it, or it cannot be made.

    A file that is there is touched, so that whoever clears away old files leaves it alone.
    """
    files = [fd for fd in lease.fds if stat.S_ISREG(os.fstat(fd).st_mode)]
    if place.folder is None or not files:
        return True
    there = [fd for fd in files if lease_dir.is_at(fd, lock_path(place.folder, lease.key))]
    if there:
        with contextlib.suppress(OSError):
            os.utime(there[0])
        return True
    try:
        lease_dir.prepare(place.folder)
        fd = lease_dir.locked_now(lock_path(place.folder, lease.key))
    except OSError:
        return False
    if fd is None:
        return False
    note_holder(fd, record)
    lease.fds.append(fd)
    return True


def names_in_use(place: Place) -> Dict[str, Optional[str]]:
    """Return by key the execution id of each lease whose socket exists in this network namespace, None if not told.

    Source: ``/proc/net/unix``, where abstract names begin with ``@``.
    """
    raw = procfs.read_small("/proc/net/unix", 64 << 20) or b""
    prefix = f"@vaws-{place.boot_id}-"
    found: Dict[str, Optional[str]] = {}
    for line in raw.decode("utf-8", "replace").splitlines():
        at = line.rfind(" " + prefix)
        if at < 0:
            continue
        key, told, execution_id = line[at + 1 + len(prefix) :].partition("=")
        if told:
            found[key] = execution_id
        else:
            found.setdefault(key, None)
    return found


def is_taken(place: Place, key: str) -> bool:
    """Tell whether somebody holds a lease now, as far as it can be seen here."""
    locked = place.folder is not None and lease_dir.is_held(lock_path(place.folder, key))
    return locked or key in names_in_use(place)


def holder_of(place: Place, key: str) -> Optional[Record]:
    """Return what is known of the holder of a lease; None when nobody can be named."""
    if place.folder is not None and lease_dir.is_held(lock_path(place.folder, key)):
        record = lease_dir.read_record(lock_path(place.folder, key))
        if record is not None:
            return record
    execution_id = names_in_use(place).get(key)
    return None if execution_id is None else {"execution_id": execution_id}

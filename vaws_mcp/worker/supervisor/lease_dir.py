"""The directory that the supervisors of a machine share: locks, tickets and who holds what.

It is open to all users like ``/tmp``. In such a directory ``fs.protected_regular`` refuses ``O_CREAT`` on a file of
another user, so files that exist are opened without it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from typing import Any, Dict, Optional, cast

DEFAULT = "/tmp/vaws-leases"  # noqa: S108 - shared by all users on purpose; files in it are opened without following links
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
_MODE = 0o1777
_TRIES = 20
DRAFT = ".new-"


def chosen(asked: Optional[str]) -> str:
    """Return the lease directory; the simulated container has one of its own in place of the usual one."""
    simulated = os.environ.get("VAWS_LEASE_DIR") if os.environ.get("VAWS_SIM") else None
    return simulated or DEFAULT if asked in (None, DEFAULT) else str(asked)


def prepare(path: str) -> None:
    """Make the directory if it is missing, and see that locks can be made in it.

    Raises: OSError when it cannot be used.
    """
    if not os.path.isdir(path):
        _make(path)
    os.close(open_lock(os.path.join(path, "queue.lock")))


def _make(path: str) -> None:
    """Make the directory, open to all from the first moment it can be seen."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = draft_of(path)
    os.mkdir(draft, 0o700)
    try:
        os.chmod(draft, _MODE)
        os.rename(draft, path)
    except OSError:
        os.rmdir(draft)
        if not os.path.isdir(path):  # else another was quicker
            raise


def open_lock(path: str) -> int:
    """Open a lock file that everybody may lock, making it when it is missing. Raises: OSError."""
    for _ in range(_TRIES):
        try:
            return os.open(path, os.O_RDWR | _FLAGS)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EROFS):
                raise
            return os.open(path, os.O_RDONLY | _FLAGS)  # enough for a lock, not for a record
        fd = _made(path)
        if fd is not None:
            return fd
    raise FileNotFoundError(errno.ENOENT, "it vanishes as soon as it is made", path)


def _made(path: str) -> Optional[int]:
    """Make a lock file that is open to all from the first moment it can be seen; None when another was quicker."""
    draft = draft_of(path)
    try:
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666)
    except FileNotFoundError:
        return None  # another has just put its directory in the place of this one
    try:
        os.fchmod(fd, 0o666)  # the umask took bits away
        os.link(draft, path)
    except OSError as error:
        os.close(fd)
        if error.errno in (errno.EEXIST, errno.ENOENT):
            return None
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)
    return fd


def draft_of(path: str) -> str:
    """Return a name beside ``path`` that nobody else uses; what a death leaves under it is removed by the next."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{DRAFT}{name}-{os.urandom(6).hex()}")


def locked_now(path: str) -> Optional[int]:
    """Return a descriptor that holds this path's lock exclusively, or None when another has it. Raises: OSError."""
    for _ in range(_TRIES):
        fd = open_lock(path)
        if not try_flock(fd):
            os.close(fd)
            return None
        if is_at(fd, path):
            return fd
        os.close(fd)  # it was deleted meanwhile: a lock on it would exclude nobody
    return None


def try_flock(fd: int, shared: bool = False) -> bool:
    """Take a lock without waiting; tells whether it was got."""
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def is_at(fd: int, path: str) -> bool:
    """Tell whether the open file is still the one at this path."""
    own = os.fstat(fd)
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)


def is_held(path: str) -> bool:
    """Tell whether a living process holds the lock of this file; False when there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return False
    try:
        return not try_flock(fd, shared=True)
    finally:
        os.close(fd)


def write_record(fd: int, record: Dict[str, Any]) -> None:
    """Write who holds a lock into its file. Raises: OSError."""
    raw = json.dumps(record).encode("ascii")
    os.ftruncate(fd, 0)
    if os.pwrite(fd, raw, 0) != len(raw):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_record(path: str) -> Optional[Dict[str, Any]]:
    """Return the record in a lock file, or None when there is none that can be read."""
    try:
        fd = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    try:
        record: Any = json.loads(os.pread(fd, 1 << 16, 0).decode("utf-8"))
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
    return cast("Dict[str, Any]", record) if isinstance(record, dict) else None

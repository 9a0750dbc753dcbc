"""The directories that versions of the worker are unpacked in: held while they are used, and removed a month later.

Starting a worker dates its directory (the file ``complete`` in it), and each process that runs from one holds it with a
shared lock, since modules are imported when they are first needed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from typing import Optional, Tuple

UNUSED_S = 30 * 86400.0
MARK = "complete"
_VERSION = re.compile(r"worker-[0-9a-f]{16}\Z")
_PART = re.compile(r"worker-unpack-[A-Za-z0-9_]+\Z")
_TAKEN_AWAY = re.compile(r"worker-removed-[0-9a-f]{8}\Z")


def own_home() -> str:
    """Return the directory that this worker runs from."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def hold(home: str) -> Optional[int]:
    """Hold a directory until the process ends; returns the descriptor, or None where that is not possible."""
    try:
        fd = os.open(os.path.join(home, MARK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return fd


def remove_one_unused(home: str) -> Optional[str]:
    """Remove one directory beside ``home`` that nobody has used for a month; returns its name.

    Only one, so that a start stays quick. What cannot be removed, or locked, is left.
    """
    base, own = os.path.split(home)
    if not _VERSION.match(own):
        return None
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(base)):
            path = os.path.join(base, name)
            unused = _TAKEN_AWAY.match(name) is not None
            if _PART.match(name):
                unused = _is_old(os.lstat(path), stat.S_IFDIR)
            elif _VERSION.match(name) and name != own:
                path, unused = _taken_away(path)
            if unused:
                _remove(path)
                return name
    return None


def _is_old(facts: os.stat_result, kind: int) -> bool:
    return stat.S_IFMT(facts.st_mode) == kind and time.time() - facts.st_mtime > UNUSED_S


def _taken_away(path: str) -> Tuple[str, bool]:
    """Give an unused directory another name, if nobody holds it; returns its name and whether that was done."""
    try:
        fd = os.open(os.path.join(path, MARK), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return path, False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.islink(path) or not _is_old(os.fstat(fd), stat.S_IFREG):
            return path, False
        away = os.path.join(os.path.dirname(path), "worker-removed-" + os.urandom(4).hex())
        os.rename(path, away)
    except OSError:
        return path, False
    finally:
        os.close(fd)
    return away, True


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)

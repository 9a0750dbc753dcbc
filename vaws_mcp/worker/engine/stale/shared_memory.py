"""Shared memory that vLLM leaves behind: ``/dev/shm/psm_*``, which Python's ``multiprocessing`` names so."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ...facts import procfs

FOLDER = "/dev/shm"  # noqa: S108 - the kernel's place for it
_NAME = re.compile(r"psm_[0-9a-f]{8}\Z")
_MAPS_BYTES = 32 << 20

Key = Tuple[int, int]


class Segment(NamedTuple):
    """One file. ``key`` is device and inode, the same under every name."""

    path: str
    key: Key
    bytes: int
    uid: int


class Users(NamedTuple):
    """Which segments are in use, and how many processes could not be asked."""

    used: Set[Key]
    unreadable: int


def segments(folder: str = FOLDER) -> List[Segment]:
    """Return the segments there are."""
    found: List[Segment] = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return found
    for name in names:
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):
            facts = os.lstat(path)
            if _NAME.match(name) and stat.S_ISREG(facts.st_mode):
                found.append(Segment(path, (facts.st_dev, facts.st_ino), facts.st_size, facts.st_uid))
    return found


def users(pids: Iterable[int]) -> Users:
    """Return what these processes map or have open."""
    used: Set[Key] = set()
    unreadable = 0
    for pid in pids:
        mapped, opened = _mapped(pid), _opened(pid)
        if mapped is None or opened is None:
            process = procfs.read_process(pid)
            unreadable += int(process is not None and process.alive)
            continue
        used |= mapped | opened
    return Users(used, unreadable)


def _mapped(pid: int) -> Optional[Set[Key]]:
    raw = procfs.read_small(f"/proc/{pid}/maps", _MAPS_BYTES)
    if raw is None or len(raw) == _MAPS_BYTES:
        return None
    found: Set[Key] = set()
    for line in raw.splitlines():
        if b"/psm_" not in line:
            continue
        fields = line.split(None, 5)
        major, _, minor = fields[3].partition(b":")
        found.add((os.makedev(int(major, 16), int(minor, 16)), int(fields[4])))
    return found


def _opened(pid: int) -> Optional[Set[Key]]:
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return None
    found: Set[Key] = set()
    for number in numbers:
        with contextlib.suppress(OSError):  # closed meanwhile
            if "/psm_" in os.readlink(f"{folder}/{number}"):
                facts = os.stat(f"{folder}/{number}")
                found.add((facts.st_dev, facts.st_ino))
    return found


def orphans(before: Set[Key], *, remove: bool) -> List[Dict[str, Any]]:
    """List the segments that no visible process uses, and remove those that are surely nobody's.

    ``before`` are those that the ended processes used. Only these are removed: whether an older one is used by another
    container that shares the directory cannot be seen from here.
    """
    present = segments()
    if not present:
        return []
    found = users(procfs.pids())
    answer: List[Dict[str, Any]] = []
    for segment in present:
        if segment.key in found.used:
            continue
        why = _kept(segment, before, found.unreadable, remove=remove)
        if why is None:
            why = _remove(segment)
        answer.append({"path": segment.path, "bytes": segment.bytes, "removed": why is None, "why": why})
    return answer


def _kept(segment: Segment, before: Set[Key], unreadable: int, *, remove: bool) -> Optional[str]:
    """Return why a segment is not removed, or None."""
    if not remove:
        return "nothing is removed by a dry run"
    if segment.uid != os.geteuid():
        return f"it belongs to user {segment.uid}"
    if segment.key not in before:
        return "none of the ended processes used it; another container may"
    if unreadable:
        return f"{unreadable} processes could not be asked whether they use it"
    return None


def _remove(segment: Segment) -> Optional[str]:
    try:
        facts = os.lstat(segment.path)
        if (facts.st_dev, facts.st_ino) != segment.key:
            return "another file has taken its name"
        os.unlink(segment.path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be removed: {error.strerror or error}"
    return None

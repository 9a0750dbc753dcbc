"""The place beside a target in which files are completed before anybody sees them. It survives a cut."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import stat
import sys
import time
from typing import Dict, List, Optional, Set

from ...refusal import Refusal
from .entries import Entry, shown, text_of
from .scan import PART_PREFIX

LOCK_WAIT_S = 3.0
FEW_FILES = 8


def part_name(entry: Entry) -> str:
    """Return the name under which a file is staged: the same only for the same path, size and time."""
    facts = b"%d %d " % (entry.size, entry.mtime_ns)
    return hashlib.sha256(facts + entry.rel).hexdigest()[:32]


class Staging:
    """The staging directory of one target, held by one transfer at a time."""

    def __init__(self, target: bytes, *, inside: bool) -> None:
        """``inside`` puts it into the target, which then is a directory: that may be a file system of its own."""
        folder = target if inside else os.path.dirname(target) or b"/"
        key = hashlib.sha256(target).hexdigest()[:16].encode()
        self.target = target
        self.path = os.path.join(folder, PART_PREFIX + key)
        self.parts = os.path.join(self.path, b"parts")
        self.tree = os.path.join(self.path, b"tree")
        self._lock: Optional[int] = None
        self._present: Dict[str, int] = {}

    def look(self) -> None:
        """See what an earlier transfer left."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.parts) as listing:
            self._present = {
                text_of(item.name): item.stat(follow_symlinks=False).st_size
                for item in listing
                if item.is_file(follow_symlinks=False)
            }

    def part(self, name: str) -> bytes:
        """Return the path of a staged file."""
        return self.parts + b"/" + name.encode("ascii", "replace")

    @property
    def any_present(self) -> bool:
        """Whether an earlier transfer left something."""
        return bool(self._present)

    def present(self, name: str) -> int:
        """Return the size of what was staged by an earlier transfer; 0 for nothing."""
        return self._present.get(name, 0)

    def open(self) -> None:
        """Make the directory and take it, if that is not done yet.

        Raises: OSError. Refusal ``busy`` when another transfer holds it.
        """
        if self._lock is not None:
            return
        limit, pause = time.monotonic() + LOCK_WAIT_S, 0.01
        while self._lock is None:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            try:
                os.mkdir(self.path, 0o700)
            except FileExistsError:
                self._check_own()
            self._lock = self._try_lock()
            if self._lock is None and time.monotonic() >= limit:
                message = f"another transfer to {shown(self.target)} is under way"
                raise Refusal("busy", message, hint="Wait for it; one that was cut ends by itself within two minutes.")
            if self._lock is None:
                time.sleep(pause)
                pause = min(pause * 2, 0.5)
        os.makedirs(self.parts, 0o700, exist_ok=True)
        shutil.rmtree(self.tree, ignore_errors=True)
        self.look()

    def _check_own(self) -> None:
        """Refuse what somebody else has put there, perhaps to be written into."""
        facts = os.lstat(self.path)
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
            message = f"{shown(self.path)} is in the way: it is not a directory of ours"
            raise Refusal("staging_foreign", message, hint="Remove it, or use another target.")

    def _try_lock(self) -> Optional[int]:
        name = os.path.join(self.path, b"lock")
        try:
            fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(name).st_ino == os.fstat(fd).st_ino:
                return fd
        except FileNotFoundError:
            pass  # its last holder has just removed it
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                os.close(fd)
                raise
        os.close(fd)
        return None

    def keep_only(self, names: Set[str]) -> None:
        """Remove what earlier transfers left and this one has no use for."""
        for name in set(self._present) - names:
            os.unlink(self.part(name))

    def close(self) -> None:
        """Let go, and leave what has arrived for the next try."""
        if self._lock is not None and not _has_some(self.parts):
            self.remove()
        elif self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove(self) -> None:
        """Remove the directory and let go."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = None


def _has_some(folder: bytes) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False


def flush(paths: List[bytes], folder: bytes) -> None:
    """Bring files to the disk: a few one by one, many with their whole file system. Raises: OSError."""
    if len(paths) > FEW_FILES and _sync_file_system(folder):
        return
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _sync_file_system(folder: bytes) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(fd) == 0:
            return True
        code = ctypes.get_errno()
    except AttributeError:
        return False
    finally:
        os.close(fd)
    if code in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        raise OSError(code, os.strerror(code), text_of(folder))
    return False

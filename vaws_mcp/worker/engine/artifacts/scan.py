"""Look at a file or tree that is to be sent: everything that cannot be sent is named before anything moves."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Callable, List, Optional, Protocol, Union

from ...refusal import Refusal, from_os_error
from .entries import (
    FILE,
    FOLDER,
    LINK,
    MAX_ENTRIES,
    MODE_BITS,
    Entry,
    listed,
    refuse_links,
    shown,
    too_many,
    unsafe_links,
)

PART_PREFIX = b".vaws-part-"
HASH_BYTES = 1 << 20

Check = Callable[[], None]


class Digest(Protocol):
    """A hash under way."""

    def update(self, data: Union[bytes, memoryview], /) -> None:
        """Take more bytes."""

    def hexdigest(self) -> str:
        """Return the hash of all bytes so far."""
        ...


def scan(root: bytes, check: Check) -> List[Entry]:
    """Return the entries at ``root``, which is a file or a directory, each directory before what is in it.

    Raises: Refusal that names what is unreadable, a device, a socket, a pipe, or a link that leads outside.
    """
    scanner = Scanner(root, check)
    scanner.look()
    scanner.refuse_bad()
    return scanner.entries


class Scanner:
    """Collects entries, and the names of what cannot be moved."""

    def __init__(self, root: bytes, check: Check) -> None:
        self.root = root
        self.check = check
        self.entries: List[Entry] = []
        self.special: List[bytes] = []
        self.unreadable: List[bytes] = []
        self.reads_all = os.geteuid() == 0

    def look(self) -> None:
        """Collect everything. Raises: Refusal when the root is missing or there is too much."""
        try:
            facts = os.stat(self.root)
            if self.add(b"", facts):
                self._walk()
        except OSError as error:
            raise from_os_error(error, shown(error.filename or self.root)) from None

    def _walk(self) -> None:
        pending = [b""]
        while pending:
            self.check()
            rel = pending.pop()
            try:
                with os.scandir(self._path(rel)) as listing:
                    found = sorted(listing, key=lambda item: item.name)
            except PermissionError:
                self.unreadable.append(rel)
                continue
            prefix = rel + b"/" if rel else b""
            for item in found:
                if not item.name.startswith(PART_PREFIX) and self.add(
                    prefix + item.name, item.stat(follow_symlinks=False)
                ):
                    pending.append(prefix + item.name)

    def add(self, rel: bytes, facts: os.stat_result) -> bool:
        """Note one entry; returns whether it is a directory."""
        mode, link, size = facts.st_mode, b"", 0
        if stat.S_ISREG(mode):
            kind, size = FILE, facts.st_size
            if not self.reads_all and not os.access(self._path(rel), os.R_OK):
                self.unreadable.append(rel or self.root)
        elif stat.S_ISDIR(mode):
            kind = FOLDER
        elif stat.S_ISLNK(mode):
            kind, link = LINK, os.readlink(self._path(rel))
        else:
            self.special.append(rel or self.root)
            return False
        if len(self.entries) >= MAX_ENTRIES:
            raise too_many()
        self.entries.append(Entry(rel, kind, mode & MODE_BITS, size, facts.st_mtime_ns, link))
        return kind == FOLDER

    def _path(self, rel: bytes) -> bytes:
        return self.root + b"/" + rel if rel else self.root

    def refuse_bad(self) -> None:
        """Raise the refusal of what cannot be moved."""
        if self.special:
            message = f"neither file, directory nor link in {shown(self.root)}: {listed(self.special)}"
            raise Refusal("special_file", message, hint="Remove them, or move the other files by themselves.")
        if self.unreadable:
            message = f"Permission denied in {shown(self.root)}: {listed(self.unreadable)}"
            raise Refusal("permission_denied", message, hint="Make them readable; nothing was sent.")
        bad = unsafe_links(self.entries)
        if bad:
            raise refuse_links(bad)


def hash_file(path: bytes, check: Check, limit: Optional[int] = None) -> str:
    """Return the SHA-256 of a file, or of its first ``limit`` bytes. Raises: OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return hash_open(fd, check, limit).hexdigest()
    finally:
        os.close(fd)


def hash_open(fd: int, check: Check, limit: Optional[int] = None) -> Digest:
    """Hash an open file from its present position. Raises: OSError."""
    digest = hashlib.sha256()
    left = limit
    while left is None or left > 0:
        check()
        chunk = os.read(fd, HASH_BYTES if left is None else min(HASH_BYTES, left))
        if not chunk:
            break
        digest.update(chunk)
        left = None if left is None else left - len(chunk)
    return digest

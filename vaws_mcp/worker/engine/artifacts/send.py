"""The sending end: from what the receiver needs to a stream of pieces."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple

from ...refusal import Refusal, from_os_error
from .entries import FILE, Entry, shown
from .inside import Inside
from .link import Link
from .scan import hash_open

CHUNK_BYTES = 1 << 19
BATCH_BYTES = 1 << 19
BATCH_FILES = 256
# A change within one tick of the clock of file times would not show in the time; so reading waits until it is over.
TICK_NS = 20_000_000

Moved = Callable[[int], None]


class Need(NamedTuple):
    """A file that the receiver lacks, by its number among the entries.

    It has ``have`` bytes with the hash ``sha256`` that may be the beginning of the file.
    """

    number: int
    have: int
    sha256: str


class Sender:
    """Reads files of one tree and sends what is needed. ``moved`` is told the bytes of files as they go."""

    def __init__(self, link: Link, root: bytes, entries: List[Entry], moved: Moved) -> None:
        self._link = link
        self._root = root
        self._inside = Inside(root)
        self._entries = entries
        self._moved = moved
        self._pieces: List[Any] = []
        self._body: List[bytes] = []
        self._waiting = 0
        self._changed: List[int] = []
        self._files = 0
        self._bytes = 0
        self._spared = 0

    def send(self, needs: List[Need], *, dry_run: bool) -> None:
        """Send the needed files and the closing frame. Raises: Refusal that names the file. LinkLost. PeerRefused."""
        if needs and not dry_run:
            self._wait_tick()
        for need in needs:
            entry = self._entries[need.number]
            path = entry.under(self._root)
            try:
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if entry.rel else 0)
                fd = os.open(self._inside.path(entry.rel), flags)
                try:
                    self._send_file(fd, need, entry, dry_run=dry_run)
                finally:
                    os.close(fd)
            except OSError as error:
                raise from_os_error(error, shown(path)) from None
        self._inside.close()
        self._flush()
        counts: Dict[str, int] = {"files": self._files, "bytes": self._bytes, "spared_bytes": self._spared}
        self._link.send({"end": counts, "changed": self._changed})

    def _wait_tick(self) -> None:
        newest = max((entry.mtime_ns for entry in self._entries if entry.kind == FILE), default=0)
        wait_ns = newest + TICK_NS - time.time_ns()
        if 0 < wait_ns <= TICK_NS:
            time.sleep(wait_ns / 1e9)

    def _send_file(self, fd: int, need: Need, entry: Entry, *, dry_run: bool) -> None:
        start, digest = 0, hashlib.sha256()
        if 0 < need.have <= entry.size:
            digest = hash_open(fd, self._link.check, need.have)
            start = need.have
            if digest.hexdigest() != need.sha256:
                start, digest = 0, hashlib.sha256()
                os.lseek(fd, 0, os.SEEK_SET)
        self._spared += start
        self._bytes += entry.size - start
        self._files += start < entry.size or not entry.size
        if dry_run:
            return
        position = start
        while True:
            chunk = os.read(fd, min(CHUNK_BYTES, entry.size - position)) if position < entry.size else b""
            if not chunk and position < entry.size:
                message = f"{shown(entry.under(self._root))} became shorter while it was read"
                raise Refusal("changed", message, hint="Call again when nobody writes it.")
            digest.update(chunk)
            last = position + len(chunk) == entry.size
            if last:
                self._note_change(fd, need.number, entry)
            self._add(need.number, position, chunk, digest.hexdigest() if last else None)
            position += len(chunk)
            if last:
                return

    def _note_change(self, fd: int, index: int, entry: Entry) -> None:
        facts = os.fstat(fd)
        if (facts.st_size, facts.st_mtime_ns) != (entry.size, entry.mtime_ns):
            self._changed.append(index)

    def _add(self, index: int, start: int, chunk: bytes, sha256: Any) -> None:
        self._pieces.append((index, start, len(chunk), sha256))
        self._body.append(chunk)
        self._waiting += len(chunk)
        if self._waiting >= BATCH_BYTES or len(self._pieces) >= BATCH_FILES:
            self._flush()

    def _flush(self) -> None:
        if not self._pieces:
            return
        self._link.check()
        small = len(self._body) > 1
        self._link.send({"pieces": self._pieces}, [b"".join(self._body)] if small else self._body)
        self._moved(self._waiting)
        self._pieces, self._body, self._waiting = [], [], 0

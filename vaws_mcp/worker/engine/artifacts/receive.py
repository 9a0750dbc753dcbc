"""The receiving end: how pieces become complete, verified files in the staging directory."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, Optional, cast

from ... import wire
from ...refusal import Refusal, from_os_error
from .entries import FILE, Entry, shown
from .link import Link
from .plan import Plan
from .scan import Digest
from .send import Moved, Need
from .staging import Staging, part_name

HOLE_BYTES = 1 << 12


def load_needs(raw: bytes, entries: List[Entry]) -> List[Need]:
    """Decode what the other end needs. Raises: FrameError for indices that name no file."""
    try:
        needs = [Need(int(index), int(have), str(sha)) for index, have, sha in json.loads(raw.decode("ascii"))]
    except (ValueError, TypeError) as error:
        raise wire.FrameError(f"malformed list of needs: {error}") from None
    if any(not 0 <= need.number < len(entries) or entries[need.number].kind != FILE for need in needs):
        raise wire.FrameError("a need that names no file")
    return needs


class Receiver:
    """Takes pieces and completes files in the staging directory."""

    def __init__(self, link: Link, plan: Plan, staging: Staging, moved: Moved) -> None:
        self._link = link
        self._plan = plan
        self._staging = staging
        self._moved = moved
        self._open: Optional[_Part] = None
        self._missing = {need.number for need in plan.needs}
        self._have = {need.number: need.have for need in plan.needs}
        self.done: Dict[int, bytes] = {}
        self.same: List[int] = []
        self.hashes: Dict[int, str] = {}

    def receive(self) -> Dict[str, Any]:
        """Take everything up to the closing frame, which is returned.

        Raises: Refusal ``checksum_mismatch``, ``disk_full`` and others that name the file. LinkLost. PeerRefused.
        """
        try:
            while True:
                head, size = self._link.receive()
                if "end" in head:
                    break
                self._take(head, size)
        finally:
            if self._open is not None:
                self._open.close()
        if self._missing and not self._plan.wish.dry_run:
            raise wire.FrameError(f"{len(self._missing)} files did not come")
        return head

    def _take(self, head: wire.Head, size: int) -> None:
        pieces = cast("List[List[Any]]", head.get("pieces") or [])
        if sum(int(piece[2]) for piece in pieces) != size or any(int(piece[2]) < 0 for piece in pieces):
            raise wire.FrameError("pieces that do not fit their body")
        for index, start, length, sha256 in pieces:
            if index not in self._missing:
                raise wire.FrameError("a piece of a file that is not needed")
            self._piece(int(index), int(start), int(length), sha256)
            self._moved(int(length))

    def _piece(self, index: int, start: int, length: int, sha256: Optional[str]) -> None:
        entry = self._plan.entries[index]
        if sha256 is not None and not length and start == entry.size > 0 and index in self._plan.from_old:
            self._missing.discard(index)
            self.same.append(index)
            self.hashes[index] = sha256
            return
        part = self._open
        if part is None or part.index != index:
            part = self._begin(index, start)
        if part.position != start or start + length > entry.size:
            raise wire.FrameError("a piece out of turn")
        try:
            for chunk in self._link.chunks(length):
                part.write(chunk)
            if sha256 is not None:
                self._finish(part, entry, sha256)
        except OSError as error:
            raise from_os_error(error, shown(entry.under(self._plan.target))) from None

    def _begin(self, index: int, start: int) -> _Part:
        if self._open is not None or (start and (index not in self._plan.begun or start != self._have[index])):
            raise wire.FrameError("a piece out of turn")
        name = part_name(self._plan.entries[index])
        path = self._staging.part(name)
        if start:
            self._open = _Part(index, path, start, self._plan.begun[index])
        else:
            if self._staging.present(name):
                os.unlink(path)
            self._open = _Part(index, path, 0, hashlib.sha256())
        return self._open

    def _finish(self, part: _Part, entry: Entry, sha256: str) -> None:
        found = part.finish(entry)
        self._open = None
        if found != sha256:
            os.unlink(part.path)
            message = f"{shown(entry.under(self._plan.target))}: the bytes that arrived have another SHA-256"
            raise Refusal("checksum_mismatch", message, hint="Call again; nothing was published.")
        self._missing.discard(part.index)
        self.done[part.index] = part.path
        self.hashes[part.index] = found


class _Part:
    """A staged file that is being written, from ``start`` on; ``digest`` has seen what is before it."""

    def __init__(self, index: int, path: bytes, start: int, digest: Digest) -> None:
        self.index = index
        self.path = path
        self.position = start
        self._digest = digest
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | (0 if start else os.O_CREAT | os.O_EXCL)
        self._fd = os.open(path, flags, 0o600)
        self._hole = False
        if start:
            os.lseek(self._fd, start, os.SEEK_SET)

    def write(self, chunk: memoryview) -> None:
        """Append bytes; long runs of zeros become holes."""
        self._digest.update(chunk)
        self.position += len(chunk)
        if len(chunk) >= HOLE_BYTES and not chunk[0] and not any(chunk[:64]) and not chunk.tobytes().strip(b"\0"):
            os.lseek(self._fd, len(chunk), os.SEEK_CUR)
            self._hole = True
            return
        self._hole = False
        while chunk:
            chunk = chunk[os.write(self._fd, chunk) :]

    def finish(self, entry: Entry) -> str:
        """Give the complete file its mode and time, close it, and return its SHA-256."""
        if self._hole:
            os.ftruncate(self._fd, self.position)
        os.fchmod(self._fd, entry.mode)
        os.utime(self._fd, ns=(entry.mtime_ns, entry.mtime_ns))
        self.close()
        return self._digest.hexdigest()

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

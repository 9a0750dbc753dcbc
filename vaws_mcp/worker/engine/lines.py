"""Lines of a file by number, at bounded memory: first count line ends chunk by chunk, then cut only the wanted part."""

from __future__ import annotations

import hashlib
import os
from typing import Callable, Iterator, List, NamedTuple, Optional, Tuple

WHOLE_FILE_BYTES = 64 << 20
CHUNK_BYTES = 1 << 18


class Window(NamedTuple):
    """Which lines to return. Units: offset counts lines from 1, negative from the end; lengths in bytes."""

    offset: int
    limit: Optional[int]
    max_bytes: int
    max_line_bytes: int


class Page(NamedTuple):
    """The lines of one answer.

    Shapes: ``lines`` are whole lines with their ends, apart from those numbered in ``truncated_lines``, which lost
    their last part. ``first_line`` is None when the lines before the page were not counted. ``full`` says that more
    lines follow.
    """

    lines: List[bytes]
    first_line: Optional[int]
    truncated_lines: List[int]
    full: bool


class Whole(NamedTuple):
    """Facts about the whole file, known when it was read to its end. Units: ``size`` in bytes."""

    size: int
    total_lines: int
    sha256: str


class Line(NamedTuple):
    """One line, at most ``max_line_bytes`` of it and its end; ``cut`` says that some of it is missing."""

    kept: bytes
    cut: bool


class LineCutter:
    """Cuts a stream of chunks into lines, never holding more of a line than is kept."""

    def __init__(self, max_line_bytes: int) -> None:
        self._most = max_line_bytes
        self._partial = b""
        self._open = False

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """Yield the lines that ``chunk`` completes."""
        start = 0
        while True:
            end = chunk.find(b"\n", start)
            piece_end = min(len(chunk) if end < 0 else end, start + self._most + 1)
            piece = chunk[start:piece_end]
            if self._open:
                piece = (self._partial + piece)[: self._most + 1]
            if end < 0:
                self._partial, self._open = piece, self._open or start < len(chunk)
                return
            yield self._line(piece, b"\n")
            self._partial, self._open = b"", False
            start = end + 1

    def rest(self) -> Optional[Line]:
        """Return what follows the last line end, or None."""
        if not self._open:
            return None
        return self._line(self._partial, b"")

    def _line(self, piece: bytes, end: bytes) -> Line:
        if len(piece) <= self._most:
            return Line(piece + end, False)
        return Line(piece[: whole_characters(piece[: self._most])] + end, True)


def whole_characters(raw: bytes) -> int:
    """Return how many bytes of ``raw`` end with a complete UTF-8 character; bytes that are no UTF-8 count as whole."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(raw) - back if needed > back else len(raw)
    return len(raw)


class Lines:
    """An open file whose lines are looked up by number. ``check`` is called between chunks and may raise."""

    def __init__(self, fd: int, size: int, check: Callable[[], None]) -> None:
        self._fd = fd
        self._size = size
        self._check = check
        self._ends_before = [0]  # line ends before each chunk

    def chunks(self, position: int = 0) -> Iterator[bytes]:
        """Yield the bytes from ``position`` to the end, or to that of a file that became shorter meanwhile."""
        while position < self._size:
            self._check()
            chunk = self._read_range(position, min(CHUNK_BYTES, self._size - position))
            if not chunk:
                return
            yield chunk
            position += len(chunk)

    def _read_range(self, position: int, length: int) -> bytes:
        raw = os.pread(self._fd, length, position)
        while len(raw) < length:  # network file systems may give less than is there
            more = os.pread(self._fd, length - len(raw), position + len(raw))
            if not more:
                break
            raw += more
        return raw

    def read_whole(self) -> Whole:
        """Read the file to its end for digest and line count."""
        digest = hashlib.sha256()
        last = b"\n"
        size = 0
        for chunk in self.chunks():
            digest.update(chunk)
            self._ends_before.append(self._ends_before[-1] + chunk.count(b"\n"))
            last = chunk[-1:]
            size += len(chunk)
        self._size = size
        return Whole(size, self._ends_before[-1] + (last != b"\n"), digest.hexdigest())

    def page_at(self, first_line: int, window: Window) -> Page:
        """Return the page that begins with line ``first_line``, counted from 1."""
        index = self._chunk_with(first_line)
        return self._page(index * CHUNK_BYTES, self._ends_before[index], first_line, window)

    def _page(self, position: int, number: int, first_line: int, window: Window) -> Page:
        """Return the page from ``first_line`` on; ``number`` is that of the line that ends before ``position``."""
        page = Page([], first_line, [], full=False)
        cutter = LineCutter(window.max_line_bytes)
        used = 0
        for line in self._lines_from(position, cutter):
            number += 1
            if number < first_line:
                continue
            used += len(line.kept)
            enough = window.limit is not None and len(page.lines) >= window.limit
            if enough or (page.lines and used > window.max_bytes):
                return page._replace(full=True)
            if line.cut:
                page.truncated_lines.append(number)
            page.lines.append(line.kept)
        return page

    def _lines_from(self, position: int, cutter: LineCutter) -> Iterator[Line]:
        for chunk in self.chunks(position):
            yield from cutter.feed(chunk)
        rest = cutter.rest()
        if rest is not None:
            yield rest

    def _chunk_with(self, line: int) -> int:
        """Return the number of a chunk before or in which ``line`` begins, counting line ends as far as needed."""
        known = self._ends_before
        for chunk in self.chunks((len(known) - 1) * CHUNK_BYTES):
            if known[-1] >= line - 1:
                break
            known.append(known[-1] + chunk.count(b"\n"))
        before = [index for index, ends in enumerate(known) if ends < line - 1]
        return before[-1] if before else 0

    def last_page(self, window: Window) -> Page:
        """Return the page that begins so many lines before the end, without counting those before it.

        ``truncated_lines`` counts from the end, the last line being -1.
        """
        position, count = self._last(-window.offset)
        return self._page(position, -count - 1, -count, window)._replace(first_line=None)

    def _last(self, wanted: int) -> Tuple[int, int]:
        """Return where the last ``wanted`` lines begin, and how many there are of them."""
        found, end = 0, self._size
        while end > 0:
            self._check()
            start = max(0, end - CHUNK_BYTES)
            chunk = self._read_range(start, end - start)
            before = len(chunk) - (end == self._size)  # a line end at the very end begins no line
            count = chunk.count(b"\n", 0, before)
            if found + count >= wanted:
                for _ in range(wanted - found):
                    before = chunk.rfind(b"\n", 0, before)
                return start + before + 1, wanted
            found += count
            end = start
        return 0, found + (self._size > 0)

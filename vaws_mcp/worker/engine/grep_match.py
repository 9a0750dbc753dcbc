"""Find the matching lines of one file's bytes."""

from __future__ import annotations

import mmap
import os
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Union

from .grep_emit import Compiled

BINARY_BYTES = 1 << 16
WHOLE_BYTES = 32 << 20
Buffer = Union[bytes, mmap.mmap]


class Span(NamedTuple):
    """Whole lines, from the start of the first to the end of the last without its line break; ``at``: the match."""

    start: int
    end: int
    at: int


def to_json(compiled: Compiled) -> Dict[str, Any]:
    """Return a compiled pattern as JSON; bytes become characters of the same number."""
    fields = compiled._asdict()
    fields["regex"], fields["extended"] = compiled.regex.decode("latin-1"), compiled.extended.decode("latin-1")
    fields["literals"] = [literal.decode("latin-1") for literal in compiled.literals]
    return fields


def from_json(fields: Dict[str, Any]) -> Compiled:
    """Return the compiled pattern that ``to_json`` wrote."""
    regex, extended = fields["regex"].encode("latin-1"), fields["extended"].encode("latin-1")
    literals = [literal.encode("latin-1") for literal in fields["literals"]]
    return Compiled(regex, extended, literals, fields["plain"], fields["ignore_case"], fields["multiline"])


def load(path: bytes) -> Buffer:
    """Return the contents of a text file, large ones mapped; empty for a binary one, or one that is not regular.

    Raises: OSError.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        head = os.read(fd, BINARY_BYTES)
        if b"\0" in head:
            return b""
        if len(head) < BINARY_BYTES and not os.read(fd, 1):
            return head
        size = os.fstat(fd).st_size
        if size > WHOLE_BYTES:
            return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
        chunks = [os.pread(fd, WHOLE_BYTES, 0)]
        while sum(map(len, chunks)) < size:
            chunks.append(os.pread(fd, size, sum(map(len, chunks))))
            if not chunks[-1]:
                break
        return b"".join(chunks)
    finally:
        os.close(fd)


class Matcher:
    """A pattern that is ready to search. Its lines are cut at line feeds alone."""

    def __init__(self, compiled: Compiled) -> None:
        flags = re.MULTILINE | re.DOTALL if compiled.multiline else re.MULTILINE
        self._regex = re.compile(compiled.regex, flags)
        self._compiled = compiled

    def matches(self, buffer: Buffer) -> bool:
        """Tell whether any line matches."""
        return next(self.spans(buffer), None) is not None

    def spans(self, buffer: Buffer) -> Iterator[Span]:
        """Yield the matching lines in order; spans neither overlap nor share lines."""
        if not len(buffer):
            return iter(())
        if self._compiled.multiline:
            return self._joined(self._blocks(buffer))
        if not self._compiled.literals:
            return self._lines(buffer)
        if not self._compiled.ignore_case:
            return self._lines_with_literal(buffer, buffer)
        # A mapped file is not copied for the sake of its letters' case.
        return self._lines_with_literal(buffer, buffer.lower()) if isinstance(buffer, bytes) else self._lines(buffer)

    def _lines(self, buffer: Buffer) -> Iterator[Span]:
        at, size = 0, len(buffer)
        while at < size:
            found = self._regex.search(buffer, at)
            if found is None or _behind(buffer, found.start()):
                return
            start = buffer.rfind(b"\n", at, found.start()) + 1 or at
            end = _line_end(buffer, found.start())
            yield Span(start, end, found.start())
            at = end + 1

    def _lines_with_literal(self, buffer: Buffer, cased: Buffer) -> Iterator[Span]:
        at, size = 0, len(buffer)
        nearest = _Nearest(cased, self._compiled.literals)
        while at < size:
            hit = nearest.after(at)
            if hit < 0:
                return
            start = buffer.rfind(b"\n", at, hit) + 1 or at
            end = _line_end(buffer, hit)
            if self._compiled.plain:
                yield Span(start, end, hit)
            else:
                found = self._regex.search(buffer, start, end)
                if found is not None:
                    yield Span(start, end, found.start())
            at = end + 1

    def _blocks(self, buffer: Buffer) -> Iterator[Span]:
        literals, size, at = self._compiled.literals, len(buffer), 0
        if literals and not self._compiled.ignore_case and all(buffer.find(literal) < 0 for literal in literals):
            return
        while at <= size:
            found = self._regex.search(buffer, at)
            if found is None or _behind(buffer, found.start()):
                return
            first, last = found.span()
            start = buffer.rfind(b"\n", 0, first) + 1
            closed = last > start and buffer[last - 1 : last] == b"\n"
            yield Span(start, last - 1 if closed else _line_end(buffer, last), first)
            at = last if last > first else last + 1

    @staticmethod
    def _joined(blocks: Iterator[Span]) -> Iterator[Span]:
        held = next(blocks, None)
        for block in blocks:
            if held is not None and block.start <= held.end:
                held = Span(held.start, max(held.end, block.end), held.at)
                continue
            if held is not None:
                yield held
            held = block
        if held is not None:
            yield held


class _Nearest:
    """The next place of any of some literals; each is looked for once per place."""

    def __init__(self, buffer: Buffer, literals: List[bytes]) -> None:
        self._buffer = buffer
        self._literals = literals
        self._places = [-2] * len(literals)

    def after(self, at: int) -> int:
        """Return the nearest place from ``at`` on, or -1."""
        best = -1
        for index, literal in enumerate(self._literals):
            place = self._places[index]
            if place != -1 and place < at:
                place = self._places[index] = self._buffer.find(literal, at)
            if place >= 0 and (best < 0 or place < best):
                best = place
        return best


def _line_end(buffer: Buffer, at: int) -> int:
    end = buffer.find(b"\n", at)
    return len(buffer) if end < 0 else end


def _behind(buffer: Buffer, at: int) -> bool:
    """Tell whether a place is behind the last line break, where there is no line any more."""
    return at == len(buffer) and buffer[at - 1 : at] == b"\n"


def line_count(buffer: Buffer, start: int, end: int) -> int:
    """Return how many line breaks there are between two places."""
    if isinstance(buffer, bytes):
        return buffer.count(b"\n", start, end)
    total = 0
    for low in range(start, end, 1 << 20):
        total += buffer[low : min(low + (1 << 20), end)].count(b"\n")
    return total

"""The matching lines of one answer as text, with line numbers and the lines around them."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Tuple

from .grep_match import Buffer, Matcher, Span, line_count
from .lines import whole_characters


class Limits(NamedTuple):
    """How much to show. Units: ``skip`` and ``take`` in matching lines, ``before`` and ``after`` in lines; bytes."""

    skip: int
    take: int
    before: int
    after: int
    line_bytes: int
    total_bytes: int


class Page:
    """Collects lines until it is full. ``taken`` counts matching lines; ``full``: there is at least one more."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = 0
        self.skipped = 0
        self.taken = 0
        self.full = False
        self.cut = 0
        self.replaced = False

    def progress(self) -> Dict[str, Any]:
        """Return the counters as JSON."""
        names = ("skipped", "taken", "full", "cut", "replaced")
        return {name: getattr(self, name) for name in names}

    def add(self, buffer: Buffer, matcher: Matcher) -> List[str]:
        """Return what one file contributes: ``12:text`` for a match, ``13-text`` around it, ``--`` for a gap."""
        sheet = _Sheet(self, buffer, self._limits)
        for line in _SingleLines(buffer, matcher):
            if self.skipped < self._limits.skip:
                self.skipped += 1
                continue
            if self.taken >= self._limits.take or self._bytes >= self._limits.total_bytes:
                self.full = True
                break
            self.taken += 1
            sheet.add_match(line)
        sheet.add_after(len(buffer))
        return sheet.lines

    def text(self, buffer: Buffer, start: int, end: int, at: int) -> str:
        """Return one line as text; of a long one the part around ``at``."""
        if end > start and buffer[end - 1 : end] == b"\r":
            end -= 1
        limit = self._limits.line_bytes
        first, last = start, end
        if end - start > limit:
            self.cut += 1
            first = start if at - start < limit * 3 // 4 else at - limit // 4
            last = min(end, first + limit)
        raw = buffer[first:last]
        if first > start:
            while raw and raw[0] & 0xC0 == 0x80 and len(raw) > limit - 4:
                raw, first = raw[1:], first + 1
        if last < end:
            raw = raw[: whole_characters(raw)]
            last = first + len(raw)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            self.replaced = True
            text = raw.decode("utf-8", "replace")
        before = "[… %d bytes] " % (first - start) if first > start else ""
        behind = " [… %d bytes]" % (end - last) if last < end else ""
        self._bytes += last - first
        return before + text + behind


class _SingleLines:
    """The lines of all spans, one by one."""

    def __init__(self, buffer: Buffer, matcher: Matcher) -> None:
        self._buffer = buffer
        self._spans = matcher.spans(buffer)
        self._rest: Tuple[int, int, int] = (0, -1, 0)

    def __iter__(self) -> _SingleLines:
        return self

    def __next__(self) -> Span:
        start, end, at = self._rest
        if start > end:
            start, end, at = next(self._spans)
        stop = self._buffer.find(b"\n", start, end)
        stop = end if stop < 0 else stop
        self._rest = (stop + 1, end, max(at, stop + 1))
        return Span(start, stop, min(at, stop))


class _Sheet:
    """The lines of one file. ``_next`` is where the first line begins that has not been written yet."""

    def __init__(self, page: Page, buffer: Buffer, limits: Limits) -> None:
        self.lines: List[str] = []
        self._page = page
        self._buffer = buffer
        self._limits = limits
        self._next = 0
        self._counted = 0
        self._number = 1

    def add_match(self, line: Span) -> None:
        self.add_after(line.start)
        first = line.start
        for _ in range(self._limits.before):
            if first <= self._next:
                break
            first = self._buffer.rfind(b"\n", self._next, first - 1) + 1 or self._next
        if first > self._next and self.lines and (self._limits.before or self._limits.after):
            self.lines.append("--")
        self._next = first
        while self._next < line.start:
            self._write_context()
        self._write(line, ":")

    def add_after(self, stop: int) -> None:
        """Write the lines after the last match, before ``stop``."""
        if not self.lines:
            return
        for _ in range(self._limits.after):
            if self._next >= stop:
                break
            self._write_context()

    def _write_context(self) -> None:
        end = self._buffer.find(b"\n", self._next)
        end = len(self._buffer) if end < 0 else end
        self._write(Span(self._next, end, self._next), "-")

    def _write(self, line: Span, sign: str) -> None:
        self._number += line_count(self._buffer, self._counted, line.start)
        self._counted = line.start
        text = self._page.text(self._buffer, line.start, line.end, line.at)
        self.lines.append("%d%s%s" % (self._number, sign, text))
        self._next = line.end + 1

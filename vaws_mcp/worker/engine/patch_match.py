"""Finds the places of hunks in a file's contents, exactly, and puts the new lines there."""

from __future__ import annotations

from typing import List, NamedTuple, NoReturn, Optional, Tuple

from ..refusal import Refusal
from .patch_model import Hunk
from .text import as_crlf, begins_line, display, is_crlf, line_number, line_start, nearest, split_lines

_SHOWN_LINES = 12
_LISTED = 10


class Patched(NamedTuple):
    """New contents. ``offsets`` are (hunk, lines): how far from its stated line each moved hunk was found."""

    body: bytes
    offsets: List[Tuple[int, int]]
    crlf: bool


class _Place(NamedTuple):
    """A hunk's lines in the contents: where they begin, and the bytes that stand there and are to stand there."""

    at: int
    old: bytes
    new: bytes


def apply_hunks(name: str, body: bytes, hunks: List[Hunk]) -> Patched:
    """Return the contents with all hunks applied, each at its line or at the only other place with the same lines.

    In a file of CRLF lines, hunks without carriage returns stand for CRLF lines. ``name`` is for errors.
    Raises: Refusal ``patch_mismatch`` or ``patch_ambiguous``.
    """
    crlf = _means_crlf(body, hunks)
    file = _File(name, body)
    for hunk in hunks:
        fitted = hunk._replace(old=as_crlf(hunk.old), new=as_crlf(hunk.new)) if crlf else hunk
        file.put(fitted, file.numbered(fitted) if hunk.line is not None else file.searched(fitted))
    file.pieces.append(body[file.cursor :])
    return Patched(b"".join(file.pieces), file.offsets, crlf)


def _means_crlf(body: bytes, hunks: List[Hunk]) -> bool:
    """Tell whether hunks stand for CRLF lines: they have no carriage return, and the file's lines all have one.

    A diff with line numbers that only adds lines fits such a file as it is, so its lines stay as they are.
    """
    if not is_crlf(body) or any(b"\r" in hunk.old or b"\r" in hunk.new for hunk in hunks):
        return False
    return any(hunk.line is None or b"\n" in hunk.old for hunk in hunks)


class _File:
    """Contents between hunks: everything before ``cursor`` is done and in ``pieces``."""

    def __init__(self, name: str, body: bytes) -> None:
        self.name = name
        self.body = body
        self.cursor = 0
        self.pieces: List[bytes] = []
        self.offsets: List[Tuple[int, int]] = []
        self._cursor_line = 0
        self._shift = 0

    def put(self, hunk: Hunk, place: _Place) -> None:
        """Replace the lines of a hunk and go on behind them."""
        line = self._cursor_line + self.body.count(b"\n", self.cursor, place.at)
        if hunk.line is not None:
            self._shift = line - hunk.line
            if self._shift:
                self.offsets.append((hunk.number, self._shift))
        self.pieces += [self.body[self.cursor : place.at], place.new]
        self.cursor = place.at + len(place.old)
        self._cursor_line = line + place.old.count(b"\n")

    def numbered(self, hunk: Hunk) -> _Place:
        """Find a hunk that says its line: there, moved as the hunk before it was, or at the only other place."""
        assert hunk.line is not None  # noqa: S101 - the caller has looked
        for line in dict.fromkeys((hunk.line + self._shift, hunk.line)):
            at = None if line < self._cursor_line else line_start(self.body, line - self._cursor_line, self.cursor)
            if at is not None and self._fits(hunk, at):
                return _Place(at, hunk.old, hunk.new)
        if not hunk.old:
            self._mismatch(hunk, hunk.line)
        places = self._places(hunk, self.cursor)
        if len(places) > 1:
            self._ambiguous(hunk, places, f"do not stand at line {hunk.line + 1}, but", "Make the patch anew.")
        if not places:
            self._mismatch(hunk, hunk.line)
        return places[0]

    def searched(self, hunk: Hunk) -> _Place:
        """Find a hunk without a line number: behind its anchors, else at the only place."""
        start = self._behind_anchors(hunk)
        if not hunk.old:
            return self._inserted(hunk, start)
        places = self._places(hunk, self.cursor if start is None else start)
        if not places:
            self._mismatch(hunk, None)
        if len(places) > 1 and start is None:
            self._ambiguous(
                hunk, places, "stand", "Add lines around the change, or @@ and a line that stands before it."
            )
        return places[0]

    def _inserted(self, hunk: Hunk, start: Optional[int]) -> _Place:
        if start is None or hunk.at_end:
            start = len(self.body)
        if begins_line(self.body, start):
            return _Place(start, b"", hunk.new)
        end = _line_end(hunk.new)
        return _Place(start, b"", end + hunk.new[: -len(end)])  # the last line had no end, and has none now

    def _behind_anchors(self, hunk: Hunk) -> Optional[int]:
        """Return where the line behind the last anchor begins; None without anchors."""
        start: Optional[int] = None
        for anchor in hunk.anchors:
            found = self._lines_like(anchor, self.cursor if start is None else start)
            if not found:
                message = f"{self._where(hunk)}: no line below the hunk before it is {display(anchor)!r}"
                raise Refusal("patch_mismatch", message, "caller", hint="Read the file again; copy the line exactly.")
            if len(found) > 1 and start is None:
                places = [_Place(at, b"", b"") for at in found]
                self._ambiguous(hunk, places, f"have a line {display(anchor)!r}", "Add another @@ line before it.")
            end = self.body.find(b"\n", found[0])
            start = len(self.body) if end < 0 else end + 1
        return start

    def _lines_like(self, anchor: bytes, start: int) -> List[int]:
        """Return where lines begin that are the anchor, apart from spaces around them."""
        found: List[int] = []
        at = self.body.find(anchor, start)
        while at >= 0 and len(found) < _LISTED:
            begin = self.body.rfind(b"\n", 0, at) + 1
            end = self.body.find(b"\n", at)
            end = len(self.body) if end < 0 else end
            if begin >= start and self.body[begin:end].strip() == anchor:
                found.append(begin)
            at = self.body.find(anchor, max(end, at + 1))
        return found

    def _fits(self, hunk: Hunk, at: int) -> bool:
        end = at + len(hunk.old)
        if not begins_line(self.body, at) or not self.body.startswith(hunk.old, at):
            return False
        at_end = end == len(self.body)
        open_ended = not hunk.old.endswith(b"\n") if hunk.old else False
        glues = bool(hunk.new) and not hunk.new.endswith(b"\n")
        return at_end or not (open_ended or glues or hunk.at_end)

    def _places(self, hunk: Hunk, start: int) -> List[_Place]:
        """Return the first places at which the old lines stand, at most one more than are listed."""
        found: List[_Place] = []
        at = self.body.find(hunk.old, start)
        while at >= 0 and len(found) <= _LISTED:
            if self._fits(hunk, at):
                found.append(_Place(at, hunk.old, hunk.new))
            at = self.body.find(hunk.old, at + 1)
        last = self._at_open_end(hunk, start) if hunk.line is None else None
        return found if last is None else [*found, last]

    def _at_open_end(self, hunk: Hunk, start: int) -> Optional[_Place]:
        """Find the old lines at the end of a file whose last line has no end, which this form cannot say."""
        old = hunk.old[: -len(_line_end(hunk.old))]
        at = len(self.body) - len(old)
        if not old or self.body.endswith(b"\n") or at < start:
            return None
        if not self.body.endswith(old) or not begins_line(self.body, at):
            return None
        return _Place(at, old, hunk.new[: -len(_line_end(hunk.new))] if hunk.new else b"")

    def _where(self, hunk: Hunk) -> str:
        return f"{self.name}: hunk {hunk.number} (line {hunk.patch_line} of the patch)"

    def _ambiguous(self, hunk: Hunk, places: List[_Place], verb: str, hint: str) -> NoReturn:
        lines = [line_number(self.body, place.at) for place in places[:_LISTED]]
        listed = ", ".join(map(str, lines)) + (", …" if len(places) > _LISTED else "")
        message = f"{self._where(hunk)} is ambiguous: its lines {verb} at lines {listed}"
        raise Refusal("patch_ambiguous", message, "caller", hint=hint, details={"lines": lines})

    def _mismatch(self, hunk: Hunk, line: Optional[int]) -> NoReturn:
        wanted = split_lines(hunk.old)
        if line is None:
            line = self._likely_line(wanted)
        start = line_start(self.body, line)
        found = [] if start is None else split_lines(self.body[start : _end_of(self.body, start, len(wanted))])
        first = next(
            (at for at, pair in enumerate(zip(wanted, found)) if pair[0] != pair[1]), min(len(wanted), len(found))
        )
        begin = max(0, min(first, len(wanted) - 1) - 3)
        expected = [_shown(text) for text in wanted[begin : begin + _SHOWN_LINES]]
        there = [_shown(text) for text in found[begin : begin + _SHOWN_LINES]]
        message = (
            f"{self._where(hunk)} does not match: line {line + first + 1} differs\n"
            f"expected from line {line + begin + 1} on:\n{_block(expected)}\n"
            f"found there:\n{_block(there) if there else '  (the file ends before)'}"
        )
        details = {"hunk": hunk.number, "line": line + begin + 1, "expected_lines": expected, "found_lines": there}
        hint = "Nothing was changed. Read the file again and make the patch anew."
        raise Refusal("patch_mismatch", message, "caller", hint=hint, details=details)

    def _likely_line(self, wanted: List[bytes]) -> int:
        """Return the line, counted from 0, near which a hunk without a number probably belongs."""
        for ahead, text in enumerate(wanted):
            near = nearest(self.body, text, most=1)
            if near:
                return max(0, near[0].number - 1 - ahead)
        return self._cursor_line


def _line_end(raw: bytes) -> bytes:
    return b"\r\n" if raw.endswith(b"\r\n") else b"\n"


def _end_of(body: bytes, start: int, lines: int) -> int:
    end = line_start(body, lines, start)
    return len(body) if end is None else end


def _shown(line: bytes) -> str:
    return display(line) if line.endswith(b"\n") else display(line) + " (without a line end)"


def _block(lines: List[str]) -> str:
    return "\n".join(f"  | {line}" for line in lines)

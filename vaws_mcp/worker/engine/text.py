"""Lines in bytes: where they begin, which line ends a file has, and how bytes are shown to people."""

from __future__ import annotations

import difflib
import time
from typing import List, NamedTuple, Optional

_STEP = 1 << 16
_NEAREST_LINES = 20000
_NEAREST_S = 0.25
_NEAREST_RATIO = 0.6
_COMPARED_CHARS = 200


def split_lines(raw: bytes) -> List[bytes]:
    """Return the lines with their ends; only a line feed ends a line."""
    parts = raw.split(b"\n")
    last = parts.pop()
    lines = [part + b"\n" for part in parts]
    return [*lines, last] if last else lines


def is_crlf(raw: bytes) -> bool:
    """Tell whether there are line ends and every one of them is CRLF."""
    ends = raw.count(b"\n")
    return ends > 0 and ends == raw.count(b"\r\n")


def as_crlf(raw: bytes) -> bytes:
    """Return the bytes with CRLF for every line end."""
    return raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def line_number(raw: bytes, position: int) -> int:
    """Return the number of the line that holds a position, counted from 1."""
    return raw.count(b"\n", 0, position) + 1


def line_start(raw: bytes, lines: int, begin: int = 0) -> Optional[int]:
    """Return where the line begins that follows ``lines`` line ends after ``begin``; None when there are fewer."""
    at = begin
    while lines:
        ends = raw.count(b"\n", at, at + _STEP)
        if ends < lines:
            lines -= ends
            at += _STEP
            if at >= len(raw):
                return None
            continue
        at = raw.index(b"\n", at) + 1
        lines -= 1
    return at


def begins_line(raw: bytes, position: int) -> bool:
    """Tell whether a line begins at a position."""
    return position == 0 or raw[position - 1 : position] == b"\n"


def display(raw: bytes, most: int = 300) -> str:
    """Return one line as text without its end; bytes that are no UTF-8 appear as ``\\xNN``."""
    text = raw.rstrip(b"\n").decode("utf-8", "backslashreplace")
    if text.endswith("\r"):
        text = text[:-1] + "\\r"
    return text if len(text) <= most else text[:most] + f" [… {len(text) - most} more characters]"


class Near(NamedTuple):
    """A line that resembles another one. ``number`` counts from 1; ``ratio`` is 1 for equal lines."""

    number: int
    line: bytes
    ratio: float


def nearest(raw: bytes, wanted: bytes, most: int = 3) -> List[Near]:
    """Return the lines of a file that most resemble ``wanted``, best first; a long file is searched only in part."""
    text = _comparable(wanted)
    if not text:
        return []
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(text)
    limit = time.monotonic() + _NEAREST_S
    found: List[Near] = []
    for number, line in enumerate(raw.split(b"\n", _NEAREST_LINES)[:_NEAREST_LINES], 1):
        if time.monotonic() > limit:
            break
        other = _comparable(line)
        if not other:
            continue
        matcher.set_seq1(other)
        if matcher.real_quick_ratio() < _NEAREST_RATIO or matcher.quick_ratio() < _NEAREST_RATIO:
            continue
        ratio = matcher.ratio()
        if ratio >= _NEAREST_RATIO:
            found.append(Near(number, line, ratio))
    found.sort(key=lambda near: (-near.ratio, near.number))
    return found[:most]


def _comparable(line: bytes) -> str:
    return " ".join(line[: 4 * _COMPARED_CHARS].decode("utf-8", "backslashreplace").split())[:_COMPARED_CHARS]

"""The regular expressions of ``grep``: a subset that Rust's regex, Python's ``re`` and GNU grep read alike.

A pattern is parsed into nodes over characters here; ``grep_emit`` writes them as an expression over bytes, so that
every engine answers by the same rules. ``docs/regex.md`` describes the subset.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple, Union

from ..refusal import Refusal

MAX_REPEAT = 1000
MAX_CODE = 0x10FFFF
Ranges = Tuple[Tuple[int, int], ...]


class Chars(NamedTuple):
    """One character out of sorted, disjoint ranges of code points; ``literal`` when the pattern has it plainly."""

    ranges: Ranges
    literal: Optional[int] = None


class Raw(NamedTuple):
    """One byte, 0x80 or above, that is no UTF-8 in the pattern either."""

    byte: int


class Anchor(NamedTuple):
    """A place between characters: ``^``, ``$``, ``b`` or ``B``."""

    kind: str


class Repeat(NamedTuple):
    """A repetition; ``most`` is None for no limit."""

    node: Node
    least: int
    most: Optional[int]
    lazy: bool


class Joined(NamedTuple):
    """Nodes one after the other."""

    nodes: List[Node]


class Either(NamedTuple):
    """Alternatives, the first that matches counts."""

    nodes: List[Node]


Node = Union[Chars, Raw, Anchor, Repeat, Joined, Either]


class Options(NamedTuple):
    """How a pattern is meant."""

    fixed: bool = False
    ignore_case: bool = False
    multiline: bool = False


def unsupported(pattern: str, what: str) -> Refusal:
    """Return the refusal of a pattern outside the subset."""
    hint = "Escape special characters with a backslash, or set fixed_strings to search for the text as it is."
    return Refusal("bad_pattern", f"pattern {pattern!r}: {what}", "caller", hint=hint)


def merged(ranges: List[Tuple[int, int]]) -> Ranges:
    """Return sorted and disjoint ranges."""
    result: List[Tuple[int, int]] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def complement(ranges: Ranges) -> Ranges:
    """Return all other code points that have a UTF-8 form."""
    result: List[Tuple[int, int]] = []
    start = 0
    for low, high in merged([*ranges, (0xD800, 0xDFFF)]):
        if low > start:
            result.append((start, low - 1))
        start = high + 1
    if start <= MAX_CODE:
        result.append((start, MAX_CODE))
    return tuple(result)


def folded(ranges: Ranges) -> Ranges:
    """Add the other case of each character; beyond ASCII only in ranges of at most 512 characters."""
    found: List[Tuple[int, int]] = list(ranges)
    for low, high in ranges:
        for code in range(low, min(high, 127) + 1 if high - low > 512 else high + 1):
            for other in (chr(code).lower(), chr(code).upper()):
                # Signs that fold to ASCII (the Kelvin sign) are left alone, so that ASCII stays ASCII.
                if len(other) == 1 and (ord(other) < 128) == (code < 128):
                    found.append((ord(other), ord(other)))
    return merged(found)

"""Patterns as expressions over bytes for each engine, and the text that every match must contain.

A character beyond ASCII becomes its UTF-8 bytes. ``.*`` and the like run over any bytes of a line, so that text in
other encodings does not stop them; a single ``.`` is one UTF-8 character.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

from .grep_parser import parse
from .grep_pattern import Anchor, Chars, Either, Joined, Node, Options, Ranges, Raw, Repeat, merged, unsupported

MAX_LITERALS = 16
MAX_STEPS = 50_000
_BEYOND_ASCII = ((0x80, 0xD7FF), (0xE000, 0x10FFFF))
_WIDTH_ENDS = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)
ByteRanges = List[Tuple[int, int]]


class Compiled(NamedTuple):
    """A pattern in all forms. ``literals``: a match contains one of them; empty when nothing is known.

    ``plain`` is set when the literals are the whole pattern, so that finding one is a match.
    """

    regex: bytes
    extended: bytes
    literals: List[bytes]
    plain: bool
    ignore_case: bool
    multiline: bool


def compile_pattern(pattern: str, options: Options) -> Compiled:
    """Parse a pattern and write it for the engines.

    Raises: Refusal ``bad_pattern``.
    """
    node = parse(pattern, options)
    if _steps(node) > MAX_STEPS:
        raise unsupported(pattern, "its repetitions multiply to too much")
    regex = _Writer(extended=False).write(node)
    extended = _Writer(extended=True).write(node)
    found = required(node)
    cased = _any_case(node)
    if cased:
        found = [literal.lower() for literal in found]
    plain = bool(found) and _is_plain(node)
    return Compiled(regex, extended, found, plain, cased, options.multiline)


def _steps(node: Node) -> int:
    if isinstance(node, Repeat):
        return 1 + _steps(node.node) * max(node.least, node.most or 1, 1)
    if isinstance(node, (Joined, Either)):
        return 1 + sum(_steps(part) for part in node.nodes)
    return 1


def _any_case(node: Node) -> bool:
    """Tell whether a plain character of the pattern stands for both cases."""
    if isinstance(node, Chars):
        return node.literal is not None and len(node.ranges) > 1
    if isinstance(node, Repeat):
        return _any_case(node.node)
    return isinstance(node, (Joined, Either)) and any(_any_case(part) for part in node.nodes)


def _is_plain(node: Node) -> bool:
    if isinstance(node, Either):
        return all(_is_plain(part) for part in node.nodes)
    if isinstance(node, Joined):
        alone = len(node.nodes) == 1
        return bool(node.nodes) and all(
            _is_plain(part) and (alone or not isinstance(part, Either)) for part in node.nodes
        )
    return isinstance(node, Raw) or (isinstance(node, Chars) and node.literal is not None)


def required(node: Node) -> List[bytes]:
    """Return byte strings of which every match contains one; empty when there are none, or too many."""
    if isinstance(node, Joined):
        return _required_of_joined(node.nodes)
    if isinstance(node, Either):
        found: List[bytes] = []
        for part in node.nodes:
            needed = required(part)
            if not needed:
                return []
            found += needed
        return found if len(found) <= MAX_LITERALS else []
    if isinstance(node, Repeat):
        return required(node.node) if node.least else []
    own = _own_bytes(node)
    return [own] if own else []


def _required_of_joined(nodes: List[Node]) -> List[bytes]:
    best: List[bytes] = []
    run = b""
    for node in nodes:
        own = _own_bytes(node)
        if own is not None:
            run += own
            continue
        best, run = _better(best, [run] if run else []), b""
        best = _better(best, required(node))
    return _better(best, [run] if run else [])


def _better(one: List[bytes], other: List[bytes]) -> List[bytes]:
    """Return the alternatives whose shortest member is longer."""
    return max(one, other, key=lambda found: min((len(item) for item in found), default=0))


def _own_bytes(node: Node) -> Optional[bytes]:
    if isinstance(node, Raw):
        return bytes([node.byte])
    if isinstance(node, Chars) and node.literal is not None:
        return chr(node.literal).encode("utf-8")
    if isinstance(node, Joined):
        parts = [_own_bytes(part) for part in node.nodes]
        known = [part for part in parts if part is not None]
        return b"".join(known) if len(known) == len(parts) else None
    return None


class _Writer:
    """Writes for Rust and Python, or, when ``extended``, POSIX extended syntax with raw bytes for GNU grep."""

    def __init__(self, extended: bool) -> None:
        self._extended = extended
        self._open = b"(" if extended else b"(?:"

    def write(self, node: Node) -> bytes:
        if isinstance(node, Chars):
            return self._chars(node.ranges)
        if isinstance(node, Raw):
            return self._byte_set([(node.byte, node.byte)])
        if isinstance(node, Anchor):
            return {"^": b"^", "$": b"$", "b": b"\\b", "B": b"\\B"}[node.kind]
        if isinstance(node, Repeat):
            return self._repeat(node)
        if isinstance(node, Either):
            return self._open + b"|".join(self.write(part) or self._nothing() for part in node.nodes) + b")"
        return b"".join(self.write(part) for part in node.nodes)

    def _nothing(self) -> bytes:
        return b"" if self._extended else b"(?:)"

    def _repeat(self, node: Repeat) -> bytes:
        inner = node.node
        if node.most is None and isinstance(inner, Chars) and _has_all_beyond(inner.ranges):
            # One character, then any bytes: the same for UTF-8, and more useful for everything else.
            ascii_part = [(low, min(high, 0x7F)) for low, high in inner.ranges if low < 0x80]
            anything = self._byte_set(merge_bytes([*ascii_part, (0x80, 0xFF)]))
            if node.least <= 1:
                return anything + self._times(node.least, None, node.lazy)
            return (
                self._open
                + self.write(inner)
                + b")"
                + self._times(node.least, node.least, False)
                + (anything + self._times(0, None, node.lazy))
            )
        return self._open + self.write(inner) + b")" + self._times(node.least, node.most, node.lazy)

    def _times(self, least: int, most: Optional[int], lazy: bool) -> bytes:
        tail = b"?" if lazy and not self._extended else b""
        if most is None and least <= 1:
            return (b"+" if least else b"*") + tail
        if most is None:
            return b"{%d,}" % least + tail
        return b"{%d}" % least if least == most else b"{%d,%d}" % (least, most) + tail

    def _chars(self, ranges: Ranges) -> bytes:
        alternatives = [self._sequence(sequence) for sequence in byte_sequences(ranges)]
        if not alternatives:
            return self._byte_set([])
        return alternatives[0] if len(alternatives) == 1 else self._open + b"|".join(alternatives) + b")"

    def _sequence(self, sequence: List[ByteRanges]) -> bytes:
        return b"".join(self._byte_set(ranges) for ranges in sequence)

    def _byte_set(self, ranges: ByteRanges) -> bytes:
        if self._extended:
            return _bracket(ranges)
        if not ranges:
            return b"(?:[a]\\b[a])"  # never matches: there is no boundary between two letters
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            code = ranges[0][0]
            plain = chr(code).isalnum() and code < 0x80
            return bytes([code]) if plain else b"\\x%02x" % code
        return b"[" + b"".join(b"\\x%02x-\\x%02x" % item for item in ranges) + b"]"


def _bracket(ranges: ByteRanges) -> bytes:
    """Return a bracket expression with raw bytes. NUL and line break, which an argument cannot carry, are left out."""
    members = {code for low, high in ranges for code in range(low, high + 1)} - {0, 10}
    if members == {ord("^")}:
        return b"\\^"
    if not members:
        return b"([a]\\b[a])"
    special = [code for code in b"]^-[\\" if code in members]
    spans = merged([(code, code) for code in members - set(special)])
    body = b"".join(bytes([low]) if low == high else bytes([low, 0x2D, high]) for low, high in spans)
    first = b"]" if ord("]") in special else b""
    back = b"".join(bytes([code]) for code in b"[\\^" if code in special)
    last = b"-" if ord("-") in special else b""
    if not first and not body and back.startswith(b"^"):
        back = back[1:] + b"^"
    return b"[" + first + body + back + last + b"]"


def merge_bytes(ranges: ByteRanges) -> ByteRanges:
    """Return sorted and disjoint ranges of bytes."""
    return list(merged(ranges))


def _has_all_beyond(ranges: Ranges) -> bool:
    return tuple(part for part in _cut(ranges, 0x80) if part[0] >= 0x80) == _BEYOND_ASCII


def _cut(ranges: Ranges, at: int) -> ByteRanges:
    parts: ByteRanges = []
    for low, high in ranges:
        if low < at <= high:
            parts += [(low, at - 1), (at, high)]
        else:
            parts.append((low, high))
    return parts


def byte_sequences(ranges: Ranges) -> List[List[ByteRanges]]:
    """Return the UTF-8 forms of ranges of characters: alternatives of sequences of byte sets."""
    single = [(low, min(high, 0x7F)) for low, high in ranges if low < 0x80]
    found: List[List[ByteRanges]] = [[single]] if single else []
    for low, high in ranges:
        start = max(low, 0x80)
        for end in _WIDTH_ENDS[1:]:
            if start <= min(high, end):
                _split(start, min(high, end), found)
                start = end + 1
    return found


def _split(low: int, high: int, found: List[List[ByteRanges]]) -> None:
    """Add the sequences of a range whose characters have equally long forms."""
    for shift in (6, 12, 18):
        mask = (1 << shift) - 1
        if (low & ~mask) == (high & ~mask):
            continue
        if low & mask:
            _split(low, low | mask, found)
            _split((low | mask) + 1, high, found)
            return
        if high & mask != mask:
            _split(low, (high & ~mask) - 1, found)
            _split(high & ~mask, high, found)
            return
    first, last = _encode(low), _encode(high)
    found.append([[pair] for pair in zip(first, last)])


def _encode(code: int) -> bytes:
    return chr(code).encode("utf-8")

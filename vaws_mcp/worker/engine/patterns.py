"""Wildcard patterns as regular expressions over the bytes of a path, as git and shells read them."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

from ..refusal import Refusal

MAX_ALTERNATIVES = 256
_CLASSES = {
    b"alpha": b"A-Za-z",
    b"digit": b"0-9",
    b"alnum": b"A-Za-z0-9",
    b"upper": b"A-Z",
    b"lower": b"a-z",
    b"space": b" \\t-\\r",
    b"blank": b" \\t",
    b"punct": b"!-/:-@\\[-`{-~",
    b"xdigit": b"0-9A-Fa-f",
}


def translate(pattern: bytes) -> Optional[bytes]:
    """Return the expression for a whole path, or None when the pattern can match nothing.

    ``*`` and ``?`` stay within one part of the path; ``**`` as a whole part stands for any number of parts.
    Source: gitignore(5), and wildmatch with WM_PATHNAME.
    """
    out: List[bytes] = []
    at = 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        if char == b"*":
            end = at
            while pattern[end : end + 1] == b"*":
                end += 1
            piece, at = _stars(pattern, at, end)
            out.append(piece)
        elif char == b"[":
            found = _bracket(pattern, at + 1)
            if found is None:
                return None
            piece, at = found
            out.append(piece)
        elif char == b"\\":
            if at + 1 == len(pattern):
                return None
            out.append(re.escape(pattern[at + 1 : at + 2]))
            at += 2
        else:
            out.append(b"[^/]" if char == b"?" else re.escape(char))
            at += 1
    return b"".join(out)


def _stars(pattern: bytes, start: int, end: int) -> Tuple[bytes, int]:
    """Return the expression for the asterisks between two positions, and where to go on."""
    opens = start == 0 or pattern[start - 1 : start] == b"/"
    if end - start == 2 and opens:
        if end == len(pattern):
            return b".*", end
        if pattern[end : end + 1] == b"/":
            return b"(?:.*/)?", end + 1
    return b"[^/]*", end


def _bracket(pattern: bytes, at: int) -> Optional[Tuple[bytes, int]]:
    """Return the expression for a class and the position after it; None when it does not end."""
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members: List[bytes] = []
    first = True
    while first or pattern[at : at + 1] != b"]":
        first = False
        if at >= len(pattern):
            return None
        if pattern.startswith(b"[:", at):
            end = pattern.find(b":]", at)
            name = pattern[at + 2 : max(end, 0)]
            if name in _CLASSES:
                members.append(_CLASSES[name])
                at = end + 2
                continue
        low, at = _member(pattern, at)
        high = low
        if pattern[at : at + 1] == b"-" and pattern[at + 1 : at + 2] not in (b"]", b""):
            high, at = _member(pattern, at + 1)
        if low <= high:
            members.append(b"\\x%02x-\\x%02x" % (low, high))
    body = b"".join(members)
    if not body:
        return (b"[^/]" if negated else b"(?!)"), at + 1
    return b"(?!/)[" + (b"^" if negated else b"") + body + b"]", at + 1


def _member(pattern: bytes, at: int) -> Tuple[int, int]:
    if pattern[at : at + 1] == b"\\" and at + 1 < len(pattern):
        at += 1
    return pattern[at], at + 1


def expand_braces(pattern: bytes) -> List[bytes]:
    """Return the patterns that ``{a,b}`` stands for; braces without a comma or an end are plain characters.

    Raises: Refusal ``bad_pattern`` when they are too many.
    """
    found: List[bytes] = []
    todo = [(b"", pattern)]
    while todo:
        done, rest = todo.pop(0)
        options = _first_braces(rest)
        if options is None:
            found.append(done + rest)
        else:
            before, parts, after = options
            todo[:0] = [(done + before, part + after) for part in parts]
        if len(found) + len(todo) > MAX_ALTERNATIVES:
            raise Refusal("bad_pattern", f"{pattern!r} has more than {MAX_ALTERNATIVES} alternatives", "caller")
    return found


_PLAIN_OR_BRACE = re.compile(rb"\\.|[{},]", re.DOTALL)


def _first_braces(pattern: bytes) -> Optional[Tuple[bytes, List[bytes], bytes]]:
    """Split at the first braces that hold a comma: what is before, the alternatives, what is behind."""
    signs = [(found.start(), found.group()) for found in _PLAIN_OR_BRACE.finditer(pattern)]
    for index, (start, sign) in enumerate(signs):
        if sign != b"{":
            continue
        cuts, depth = [start], 0
        for at, other in signs[index:]:
            depth += {b"{": 1, b"}": -1}.get(other, 0)
            if depth == 0 or (depth == 1 and other == b","):
                cuts.append(at)
            if depth == 0:
                break
        if depth == 0 and len(cuts) > 2:
            parts = [pattern[low + 1 : high] for low, high in zip(cuts, cuts[1:])]
            return pattern[:start], parts, pattern[cuts[-1] + 1 :]
    return None


def path_regex(patterns: List[bytes]) -> re.Pattern[bytes]:
    """Return one expression (for ``fullmatch``) that matches a path when one of the patterns does."""
    parts = [part for part in (translate(pattern) for pattern in patterns) if part is not None]
    return re.compile(b"|".join(b"(?:%s)" % part for part in parts) or b"(?!)", re.DOTALL)


def filter_regex(patterns: List[str]) -> re.Pattern[bytes]:
    """Return the expression for filters such as ``*.py``: a pattern without a slash holds in every directory."""
    full: List[bytes] = []
    for text in patterns:
        for pattern in expand_braces(text.encode("utf-8", "surrogateescape")):
            bare = pattern.rstrip(b"/")
            full.append(bare.lstrip(b"/") if b"/" in bare else b"**/" + bare)
    return path_regex(full)

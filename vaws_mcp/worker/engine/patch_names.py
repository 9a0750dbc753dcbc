"""File names in the headers of a unified diff."""

from __future__ import annotations

import re
from typing import List, NoReturn, Optional, Tuple

from .patch_model import malformed

NO_FILE = "/dev/null"
_PREFIXES = ("a/", "b/", "i/", "w/", "c/", "o/", "1/", "2/")
_SIMPLE = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_CODE = re.compile(rb"\\([0-7]{3}|.)")


def text_of(raw: bytes) -> str:
    """Return a name as Python has it, bytes that are no UTF-8 as lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def _unquoted(raw: bytes, line: int) -> bytes:
    def byte(match: re.Match[bytes]) -> bytes:
        code = match.group(1)
        if len(code) == 3:
            return bytes([int(code, 8) & 0xFF])
        if code not in _SIMPLE:
            malformed(line, f"unknown escape \\{text_of(code)} in a file name")
        return bytes([_SIMPLE[code]])

    return _CODE.sub(byte, raw)


def header_name(rest: bytes, line: int) -> str:
    """Return the name that follows ``---``, ``+++`` or ``rename from``; a time after a tab is dropped."""
    quoted = _QUOTED.match(rest)
    return text_of(_unquoted(quoted.group(1), line) if quoted else rest.split(b"\t", 1)[0])


def git_names(rest: bytes, line: int) -> Optional[Tuple[str, str]]:
    """Return both names of ``diff --git``, or None when they cannot be told apart because they differ."""
    quoted = _QUOTED.match(rest)
    if quoted:
        return text_of(_unquoted(quoted.group(1), line)), header_name(rest[quoted.end() :].lstrip(b" "), line)
    second = rest.find(b' "')
    if second > 0:
        return text_of(rest[:second]), header_name(rest[second + 1 :], line)
    found: List[Tuple[str, str]] = []
    at = rest.find(b" ")
    while at >= 0:
        one, two = text_of(rest[:at]), text_of(rest[at + 1 :])
        if one == two or (has_prefixes(one, two) and one[2:] == two[2:]):
            found.append((one, two))
        at = rest.find(b" ", at + 1)
    return found[0] if len(found) == 1 else None


def has_prefixes(one: str, two: str) -> bool:
    """Tell whether two names begin with the one-letter directories that diff programs put before them."""
    if NO_FILE in (one, two):
        real = two if one == NO_FILE else one
        return real[:2] in _PREFIXES
    return one[:2] != two[:2] and one[:2] in _PREFIXES and two[:2] in _PREFIXES


def checked(name: str, line: int) -> str:
    """Return a name that may be used: not empty, without NUL and without ``..``.

    Raises: Refusal ``bad_patch``.
    """

    def refuse(problem: str) -> NoReturn:
        malformed(line, f"{problem}: {name!r}")

    if not name or name.endswith("/") or name == NO_FILE:
        refuse("a file name is missing")
    if "\0" in name:
        refuse("a file name has a NUL")
    if ".." in name.split("/"):
        refuse("a file name may not lead upwards")
    return name

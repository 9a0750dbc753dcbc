"""What ``.gitignore`` files leave out.

Source: gitignore(5). Only ``.gitignore`` files inside a git repository count: not ``.git/info/exclude``, not a user's
global file, not ``.ignore``. A repository inside another follows its own files alone.
"""

from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Optional

from .patterns import translate

MAX_BYTES = 4 << 20


class Rule(NamedTuple):
    """One line. ``regex`` is for the name when the line has no slash, else for the path from the file's directory."""

    regex: re.Pattern[bytes]
    negated: bool
    only_directories: bool
    by_name: bool


class Rules(NamedTuple):
    """The rules of one directory, on top of those of the directories above. ``depth``: length of its path prefix."""

    rules: List[Rule]
    depth: int
    above: Optional[Rules]

    def ignores(self, path: bytes, is_directory: bool) -> bool:
        """Tell whether an entry is left out, given that the directories above it are not.

        Shapes: ``path`` is relative to where ``depth`` counts from.
        """
        name = path[path.rfind(b"/") + 1 :]
        level: Optional[Rules] = self
        while level is not None:
            for rule in reversed(level.rules):
                if rule.only_directories and not is_directory:
                    continue
                if rule.regex.fullmatch(name if rule.by_name else path[level.depth :]):
                    return not rule.negated
            level = level.above
        return False


def parse_rules(raw: bytes) -> List[Rule]:
    """Parse a ``.gitignore`` file; lines that can match nothing are left out."""
    found: List[Rule] = []
    if raw.startswith(b"\xef\xbb\xbf"):
        raw = raw[3:]
    for line in raw.split(b"\n"):
        rule = _parse_line(line[:-1] if line.endswith(b"\r") else line)
        if rule is not None:
            found.append(rule)
    return found


def _parse_line(line: bytes) -> Optional[Rule]:
    if line.startswith(b"#"):
        return None
    line = _without_trailing_spaces(line)
    negated = line.startswith(b"!")
    if negated:
        line = line[1:]
    only_directories = line.endswith(b"/")
    if only_directories:
        line = line[:-1]
    by_name = b"/" not in line
    if line.startswith(b"/"):
        line = line[1:]
    regex = translate(line) if line else None
    if regex is None:
        return None
    try:
        return Rule(re.compile(regex, re.DOTALL), negated, only_directories, by_name)
    except re.error:
        return None


def _without_trailing_spaces(line: bytes) -> bytes:
    end = len(line)
    while end and line[end - 1 : end] == b" ":
        slashes = end - 1 - len(line[: end - 1].rstrip(b"\\"))
        if slashes % 2:
            break
        end -= 1
    return line[:end]


def read_rules(folder: bytes, depth: int, above: Optional[Rules]) -> Optional[Rules]:
    """Return the rules that hold in a directory, given those from above."""
    try:
        with open(os.path.join(folder, b".gitignore"), "rb") as stream:
            rules = parse_rules(stream.read(MAX_BYTES))
    except OSError:
        return above
    return Rules(rules, depth, above) if rules else above


_NO_RULES = Rules([], 0, None)


class Place(NamedTuple):
    """The rules for the entries of a directory, None outside of a repository, and its path from the repository."""

    rules: Optional[Rules]
    prefix: bytes


def enter(folder: bytes, outer: Place) -> Place:
    """Return the place of a directory itself, given its path and the rules from above."""
    if os.path.lexists(os.path.join(folder, b".git")):
        return Place(read_rules(folder, 0, _NO_RULES), b"")
    if outer.rules is None:
        return outer
    return Place(read_rules(folder, len(outer.prefix), outer.rules), outer.prefix)


def from_above(root: bytes) -> Place:
    """Return the place of ``root`` with the rules that the directories above it set."""
    folders = [root]
    while not os.path.lexists(os.path.join(folders[-1], b".git")):
        parent = os.path.dirname(folders[-1])
        if parent == folders[-1]:
            return Place(None, b"")
        folders.append(parent)
    place = Place(None, b"")
    for folder in reversed(folders[1:]):
        place = enter(folder, place)
        below = folders[folders.index(folder) - 1]
        place = place._replace(prefix=place.prefix + os.path.basename(below) + b"/")
    return place

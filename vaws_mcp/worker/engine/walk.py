"""Walk a directory tree at bounded memory, leaving out what a search does not want."""

from __future__ import annotations

import os
import re
from typing import Callable, Iterator, List, NamedTuple, Optional, Tuple

from .ignore import Place, enter, from_above
from .names import shown

VERSION_CONTROL = frozenset((b".git", b".hg", b".svn", b".bzr", b".jj"))
_NOWHERE = Place(None, b"")


class Wanted(NamedTuple):
    """What a walk yields. Patterns are for the path from the walk's root; ``exclude`` prunes directories too."""

    hidden: bool = True
    respect_gitignore: bool = True
    include: Optional[re.Pattern[bytes]] = None
    kind: Optional[re.Pattern[bytes]] = None
    exclude: Optional[re.Pattern[bytes]] = None
    links: bool = False
    depth: Optional[int] = None

    def names(self, path: bytes) -> bool:
        """Tell whether the path of a file is one of those that are looked for."""
        if self.include is not None and not self.include.fullmatch(path):
            return False
        return self.kind is None or self.kind.fullmatch(path) is not None

    def keeps(self, path: bytes) -> bool:
        """Tell whether a file found by another program is wanted, apart from ignore rules."""
        parts = path.split(b"/")
        if not self.hidden and any(part.startswith(b".") for part in parts):
            return False
        if any(part in VERSION_CONTROL for part in parts[:-1]) or parts[-1] in VERSION_CONTROL:
            return False
        if not self.names(path):
            return False
        if self.exclude is None:
            return True
        ends = [index for index, byte in enumerate(path) if byte == 0x2F] + [len(path)]
        return not any(self.exclude.fullmatch(path[:end]) for end in ends)


class Trouble:
    """What could not be read on the way: how much, and the first few."""

    def __init__(self) -> None:
        self.count = 0
        self.first: List[Tuple[bytes, str]] = []

    def note(self, path: bytes, error: str) -> None:
        """Count one thing that could not be read."""
        self.count += 1
        if len(self.first) < 5:
            self.first.append((path, error))

    def shown(self, escaped: bool) -> List[str]:
        """Return the first few as lines of text."""
        names = shown([path for path, _ in self.first], escaped)
        return ["%s: %s" % (name, error) for name, (_, error) in zip(names, self.first)]


class _Folder(NamedTuple):
    path: bytes
    place: Place
    depth: int


def walk(
    root: bytes, wanted: Wanted, trouble: Trouble, check: Callable[[], None], start: bytes = b""
) -> Iterator[Tuple[bytes, os.DirEntry[bytes]]]:
    """Yield (path from ``root``, entry) of each file below ``root``, or below ``start`` in it; links are not followed.

    ``check`` is called for each directory and may raise.
    """
    respect = wanted.respect_gitignore
    top = from_above(os.path.join(root, start) if start else root) if respect else _NOWHERE
    todo = [_Folder(start + b"/" if start else b"", top, 1)]
    while todo:
        folder = todo.pop()
        check()
        here = os.path.join(root, folder.path) if folder.path else root
        place = enter(here, folder.place) if respect else _NOWHERE
        deeper = wanted.depth is None or folder.depth < wanted.depth
        below: List[_Folder] = []
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    if _left_out(entry, folder.path, place, wanted):
                        continue
                    path = folder.path + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        inside = place._replace(prefix=place.prefix + entry.name + b"/")
                        if deeper:
                            below.append(_Folder(path + b"/", inside, folder.depth + 1))
                    elif _is_wanted_file(entry, path, wanted):
                        yield path, entry
        except OSError as error:
            trouble.note(folder.path or b".", error.strerror or str(error))
        todo += sorted(below, reverse=True)


def _left_out(entry: os.DirEntry[bytes], folder: bytes, place: Place, wanted: Wanted) -> bool:
    name = entry.name
    if name.startswith(b".") and (not wanted.hidden or name in VERSION_CONTROL):
        return True
    if wanted.exclude is not None and wanted.exclude.fullmatch(folder + name):
        return True
    rules = place.rules
    return rules is not None and rules.ignores(place.prefix + name, entry.is_dir(follow_symlinks=False))


def _is_wanted_file(entry: os.DirEntry[bytes], path: bytes, wanted: Wanted) -> bool:
    if not wanted.names(path):
        return False
    if entry.is_symlink():
        return wanted.links
    return entry.is_file(follow_symlinks=False)

"""``ls``: the entries of one directory, page by page."""

from __future__ import annotations

import heapq
import os
import stat
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional

from ..refusal import from_os_error
from ..request import Answer, Request
from .names import is_text, shown
from .places import may_show, start_of

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character_device",
    stat.S_IFBLK: "block_device",
}


class _Entry(NamedTuple):
    name: bytes
    facts: os.stat_result
    target: Optional[bytes]


class _Counter:
    def __init__(self) -> None:
        self.total = 0
        self.hidden = 0


def list_directory(request: Request) -> Answer:
    """Answer with entries sorted by name (bytes); a file is answered as its own single entry."""
    params = request.params
    limit, offset = params.integer("limit", 1000, 1), params.integer("offset", 0)
    everything = params.flag("all")
    start = start_of(request)
    counter = _Counter()
    if start.only:
        names = [start.only]
        counter.total = 1
    else:
        try:
            visible = _names(start.root, everything, counter, request.check)
            allowed = (name for name in visible if may_show(request, start.root, name))
            names = heapq.nsmallest(offset + limit, allowed)[offset:]
        except OSError as error:
            raise from_os_error(error, os.fsdecode(start.root)) from None
    found = [entry for entry in (_look(start.root, name) for name in names) if entry is not None]
    escaped = not all(is_text(entry.name) and is_text(entry.target or b"") for entry in found)
    escaped = escaped or not is_text(start.root)
    following = offset + len(names)
    return {
        "path": shown([start.root], escaped)[0],
        "entries": [_describe(entry, escaped) for entry in found],
        "total": counter.total,
        "hidden": counter.hidden,
        "next_offset": following if following < counter.total else None,
        "escaped": escaped,
    }, b""


def _names(root: bytes, everything: bool, counter: _Counter, check: Callable[[], None]) -> Iterator[bytes]:
    with os.scandir(root) as entries:
        for index, entry in enumerate(entries):
            if index % 1000 == 0:
                check()
            if entry.name.startswith(b".") and not everything:
                counter.hidden += 1
                continue
            counter.total += 1
            yield entry.name


def _look(root: bytes, name: bytes) -> Optional[_Entry]:
    """Return what is known about an entry, None when it is gone by now."""
    path = os.path.join(root, name)
    try:
        facts = os.lstat(path)
        return _Entry(name, facts, os.readlink(path) if stat.S_ISLNK(facts.st_mode) else None)
    except OSError:
        return None


def _describe(entry: _Entry, escaped: bool) -> Dict[str, Any]:
    facts = entry.facts
    return {
        "name": shown([entry.name], escaped)[0],
        "kind": _KINDS.get(stat.S_IFMT(facts.st_mode), "other"),
        "size": facts.st_size,
        "mtime_ns": facts.st_mtime_ns,
        "mode": stat.S_IMODE(facts.st_mode),
        "target": None if entry.target is None else shown([entry.target], escaped)[0],
    }

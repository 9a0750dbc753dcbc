"""``glob``: the files below a directory whose paths match a pattern."""

from __future__ import annotations

import heapq
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..refusal import Refusal
from ..request import Answer, Request
from .names import is_text, shown
from .patterns import expand_braces, path_regex
from .places import may_show, start_of
from .walk import Trouble, Wanted, walk

_WILD = (b"*", b"?", b"[", b"\\")
_Found = Tuple[float, bytes]


class _Plan(NamedTuple):
    """Where a walk begins and how many levels below it can match; None when any number can."""

    start: bytes
    depth: Optional[int]


def glob(request: Request) -> Answer:
    """Answer with matching files, newest first or by path; with a bound on the time what was found until then."""
    params = request.params
    text = params.text("pattern")
    limit, offset = params.integer("limit", 1000, 1), params.integer("offset", 0)
    by_time = params.choice("sort", ["mtime", "path"]) == "mtime"
    start = start_of(request)
    if start.only:
        raise Refusal("not_a_directory", f"{os.fsdecode(start.path)} is a file, not a directory", "caller")
    patterns = _patterns(text)
    plan = _plan(patterns)
    wanted = Wanted(
        hidden=params.flag("hidden", True),
        respect_gitignore=params.flag("respect_gitignore", True),
        include=path_regex(patterns),
        links=True,
        depth=plan.depth,
    )
    search = _Search(request, start.root, by_time)
    best = heapq.nsmallest(offset + limit, search.found(wanted, plan.start))
    page = [path for _, path in best[offset:]]
    troubled = [path for path, _ in search.trouble.first]
    escaped = not all(is_text(name) for name in [start.root, *page, *troubled])
    following = offset + len(page)
    result: Dict[str, Any] = {
        "path": shown([start.root], escaped)[0],
        "files": shown(page, escaped),
        "total": search.total,
        "next_offset": following if following < search.total else None,
        "timed_out": search.timed_out,
        "unreadable": search.trouble.count,
        "problems": search.trouble.shown(escaped),
        "escaped": escaped,
    }
    return result, b""


def _patterns(text: str) -> List[bytes]:
    pattern = text.encode("utf-8", "surrogateescape")
    if pattern.startswith(b"/") or b".." in pattern.split(b"/"):
        message = f"the pattern {text!r} must be relative and stay below path"
        raise Refusal("bad_pattern", message, "caller", hint="Give the directory as path.")
    while pattern.startswith(b"./"):
        pattern = pattern[2:]
    return expand_braces(pattern)


def _plan(patterns: List[bytes]) -> _Plan:
    depth: Optional[int] = 0
    for pattern in patterns:
        parts = pattern.split(b"/")
        depth = None if depth is None or b"**" in parts else max(depth, len(parts))
    first = patterns[0].split(b"/")[:-1]
    fixed = 0
    while (
        len(patterns) == 1 and fixed < len(first) and first[fixed] and not any(sign in first[fixed] for sign in _WILD)
    ):
        fixed += 1
    return _Plan(b"/".join(first[:fixed]), None if depth is None else depth - fixed)


class _Search:
    def __init__(self, request: Request, root: bytes, by_time: bool) -> None:
        self.total = 0
        self.timed_out = False
        self.trouble = Trouble()
        self._request = request
        self._root = root
        self._by_time = by_time

    def found(self, wanted: Wanted, start: bytes) -> Iterator[_Found]:
        """Yield (order, path); ends early, and says so, when the deadline comes."""
        request = self._request
        if not os.path.isdir(os.path.join(self._root, start)):
            return
        try:
            for path, entry in walk(self._root, wanted, self.trouble, request.check, start):
                if may_show(request, self._root, path):
                    self.total += 1
                    yield (-_mtime(entry) if self._by_time else 0.0), path
        except Refusal as refusal:
            if refusal.code != "deadline":
                raise
            self.timed_out = True


def _mtime(entry: os.DirEntry[bytes]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0

"""What a search was asked and has found, and the reading of a page of its lines."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Tuple

from ..request import Request
from .grep_emit import Compiled
from .grep_match import to_json
from .grep_pool import Job, run_jobs
from .places import Start
from .walk import Trouble, Wanted

_LINE_BATCH = 100


class Asked(NamedTuple):
    """The request of a search."""

    compiled: Compiled
    mode: str
    wanted: Wanted
    names: List[str]
    offset: int
    limit: int
    by_time: bool


class State:
    """What a search has found. ``counts``: lines by path, 1 where they were not counted."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.counts: Dict[bytes, int] = {}
        self.trouble = Trouble()
        self.engine = "python"
        self.timed_out = False
        self.limited = False

    @property
    def complete(self) -> bool:
        """Whether everything was looked at."""
        return not self.timed_out and not self.limited


class Reader:
    """Reads the lines of a page, file by file."""

    def __init__(self, request: Request, asked: Asked, state: State) -> None:
        params = request.params
        around = params.integer("context", 0)
        self.files: List[Tuple[bytes, List[str]]] = []
        self.taken = 0
        self.cut = 0
        self.more = False
        self.replaced = False
        self._skipped = 0
        self._bytes = 0
        self._request = request
        self._asked = asked
        self._state = state
        self._before = min(params.integer("before", around), 1000)
        self._after = min(params.integer("after", around), 1000)
        self._line_bytes = params.integer("max_line_bytes", 2000, 64)
        self._total_bytes = params.integer("max_output_bytes", 60_000, 1)

    def read(self, paths: List[bytes]) -> None:
        """Read until the page is full; then ``more`` says that there is at least one further line."""
        for low in range(0, len(paths), _LINE_BATCH):
            part = paths[low : low + _LINE_BATCH]
            if self.taken >= self._asked.limit or self._bytes >= self._total_bytes:
                self.more = True
                return
            for _job, answer in run_jobs(self._request, iter([Job(self._head(), part)]), 1):
                if answer is None:
                    self._state.trouble.note(part[0], "this file or one after it: the search crashed")
                    continue
                self._take(part, answer[0])
            if self.more:
                return

    def _head(self) -> Dict[str, Any]:
        limits = {
            "skip": self._asked.offset - self._skipped,
            "take": self._asked.limit - self.taken,
            "before": self._before,
            "after": self._after,
            "line_bytes": self._line_bytes,
            "total_bytes": self._total_bytes - self._bytes,
        }
        root = os.fsdecode(self._state.start.root)
        return {"kind": "lines", "root": root, "pattern": to_json(self._asked.compiled), "limits": limits}

    def _take(self, part: List[bytes], facts: Dict[str, Any]) -> None:
        self.files += [(part[index], lines) for index, lines in facts["files"]]
        self._bytes += sum(len(line) for _, lines in facts["files"] for line in lines)
        self._skipped += facts["skipped"]
        self.taken += facts["taken"]
        self.cut += facts["cut"]
        self.more = facts["full"]
        self.replaced = self.replaced or facts["replaced"]
        for path, error in facts["bad"]:
            self._state.trouble.note(os.fsencode(path), error)

"""``grep``: which files match, the matching lines, or how many there are.

First the files that match are found, by rg, or by our own processes with GNU grep as a prefilter. Lines are then read
by our own processes, from the files of the page alone, so they look the same whoever found the files.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Iterator, List, Optional

from ..refusal import Refusal, bad_request
from ..request import Answer, Request
from . import grep_rg
from .grep_emit import compile_pattern
from .grep_match import to_json
from .grep_pattern import Options
from .grep_pool import Job, process_count, run_jobs
from .grep_reader import Asked, Reader, State
from .grep_types import ALIASES, TYPES
from .names import is_text, shown
from .patterns import filter_regex
from .places import may_show, start_of
from .walk import Trouble, Wanted, walk

MAX_FOUND = 200_000
_BATCH_FILES = 1000
_BATCH_BYTES = 100_000
_TIME_TO_READ = 0.25  # of the time for a page of lines
_MODES = ["files_with_matches", "content", "count"]


def grep(request: Request) -> Answer:
    """Answer with a page of what matches; when the deadline comes, with what was found until then."""
    asked = _asked(request)
    start = start_of(request)
    state = State(start)
    engine = request.params.choice("engine", ["auto", "rg", "python"])
    deadline = request.deadline
    if deadline is not None and asked.mode == "content":
        request.deadline = deadline - _TIME_TO_READ * (deadline - time.monotonic())
    try:
        _find_files(request, asked, state, engine)
    except Refusal as refusal:
        if refusal.code != "deadline":
            raise
        state.timed_out = True
    request.deadline = deadline
    paths = sorted(path for path in state.counts if may_show(request, start.root, path))
    if asked.by_time:
        times = {path: _mtime(os.path.join(start.root, path)) for path in paths}
        paths.sort(key=lambda path: -times[path])
    if asked.mode == "content":
        return _content(request, asked, state, paths)
    return _list(asked, state, paths)


def _asked(request: Request) -> Asked:
    params = request.params
    mode = params.choice("output_mode", _MODES)
    options = Options(params.flag("fixed_strings"), params.flag("ignore_case"), params.flag("multiline"))
    pattern = params.text("pattern")
    kind = params.optional_text("type")
    globs, names = params.texts("glob"), _names_of(kind)
    excluded = params.texts("exclude")
    include = filter_regex(globs) if globs else None
    wanted = Wanted(
        hidden=params.flag("hidden", True),
        respect_gitignore=params.flag("respect_gitignore", True),
        include=include,
        kind=filter_regex(names) if names else None,
        exclude=filter_regex(excluded) if excluded else None,
    )
    sort = params.choice("sort", ["mtime", "path"] if mode == "files_with_matches" else ["path", "mtime"])
    limit = params.integer("head_limit", 250, 1)
    compiled = compile_pattern(pattern, options)
    return Asked(compiled, mode, wanted, names or globs, params.integer("offset", 0), limit, sort == "mtime")


def _names_of(kind: Optional[str]) -> List[str]:
    if kind is None:
        return []
    names = TYPES.get(ALIASES.get(kind, kind))
    if names is None:
        raise bad_request(f"type {kind!r} is not known", "Types: %s. Or use glob." % ", ".join(TYPES))
    return names


def _mtime(path: bytes) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0


def _find_files(request: Request, asked: Asked, state: State, engine: str) -> None:
    start = state.start
    if start.only:
        # A file that was asked for by name is searched, whatever it is called and whoever ignores it.
        _scan(request, asked, state, iter([start.only]))
        return
    rg = None if engine == "python" else grep_rg.find_rg()
    if rg is None and engine == "rg":
        raise Refusal("tool_missing", "rg is not installed, or older than version 12")
    if rg is not None:
        try:
            _ask_rg(request, asked, state, rg)
        except grep_rg.Failed:
            state.counts.clear()
            state.trouble = Trouble()
        else:
            return
    state.engine = "python"
    found = walk(start.root, asked.wanted, state.trouble, request.check)
    _scan(request, asked, state, (path for path, _ in found))


def _ask_rg(request: Request, asked: Asked, state: State, rg: str) -> None:
    state.engine = "rg"
    multiline = asked.compiled.multiline
    counting = asked.mode == "count" and not multiline
    wanted = asked.wanted
    plan = grep_rg.Plan(asked.compiled, counting, wanted.hidden, wanted.respect_gitignore, asked.names)
    trusted = wanted.hidden and not (wanted.include or wanted.kind or wanted.exclude)
    search = grep_rg.Search(request, state.start.root, grep_rg.argv(rg, plan), counting)
    with contextlib.closing(search.found()) as found:
        for path, count in found:
            if trusted or wanted.keeps(path):
                state.counts[path] = count
            if len(state.counts) >= MAX_FOUND:
                state.limited = True
                break
    state.trouble.count = search.problem_count
    state.trouble.first = [(b"rg", line.decode("utf-8", "replace")) for line in search.problems]
    if multiline:
        # Here rg counts matches and not lines, and takes some binary files for text: its files are searched again.
        paths = sorted(state.counts)
        state.counts.clear()
        _scan(request, asked, state, iter(paths))


def _scan(request: Request, asked: Asked, state: State, paths: Iterator[bytes]) -> None:
    """Search files by our own processes."""
    grep = grep_path()
    head = {
        "kind": "count" if asked.mode == "count" else "files",
        "root": os.fsdecode(state.start.root),
        "pattern": to_json(asked.compiled),
        "grep": grep,
    }
    for job, answer in run_jobs(request, (Job(head, batch) for batch in _batches(paths)), process_count()):
        if answer is None:
            state.trouble.note(job.paths[0], "this file and up to %d others: the search crashed" % (len(job.paths) - 1))
            continue
        facts, body = answer
        state.counts.update(zip(body.split(b"\0")[:-1], facts["counts"]))
        for path, error in facts["bad"]:
            state.trouble.note(os.fsencode(path), error)
        if len(state.counts) >= MAX_FOUND:
            state.limited = True
            return


def grep_path() -> Optional[str]:
    """Return the path of grep, or None."""
    for folder in ("/usr/bin", "/bin"):
        path = os.path.join(folder, "grep")
        if os.access(path, os.X_OK):
            return path
    return None


def _batches(paths: Iterator[bytes]) -> Iterator[List[bytes]]:
    batch: List[bytes] = []
    size = 0
    # The first batches are small, so that all processes have work early.
    limit = _BATCH_FILES // 4
    for path in paths:
        batch.append(path)
        size += len(path) + 3
        if len(batch) >= limit or size >= _BATCH_BYTES:
            yield batch
            batch, size, limit = [], 0, _BATCH_FILES
    if batch:
        yield batch


def _list(asked: Asked, state: State, paths: List[bytes]) -> Answer:
    page = paths[asked.offset : asked.offset + asked.limit]
    following = asked.offset + len(page)
    escaped = _must_escape(state, page)
    result = _frame(state, escaped)
    result.update(total_files=len(paths), next_offset=following if following < len(paths) else None)
    result["files"] = shown(page, escaped)
    if asked.mode == "count":
        result["counts"] = [state.counts[path] for path in page]
        result["total_matches"] = sum(state.counts[path] for path in paths)
    return result, b""


def _content(request: Request, asked: Asked, state: State, paths: List[bytes]) -> Answer:
    reader = Reader(request, asked, state)
    try:
        reader.read(paths)
    except Refusal as refusal:
        if refusal.code != "deadline":
            raise
        state.timed_out = True
    escaped = _must_escape(state, [path for path, _ in reader.files])
    result = _frame(state, escaped)
    result.update(
        total_files=len(paths),
        next_offset=asked.offset + reader.taken if reader.more else None,
        matches=[{"file": shown([path], escaped)[0], "lines": lines} for path, lines in reader.files],
        shown_matches=reader.taken,
        cut_lines=reader.cut,
        replaced_bytes=reader.replaced,
    )
    return result, b""


def _must_escape(state: State, paths: List[bytes]) -> bool:
    troubled = [path for path, _ in state.trouble.first]
    return not all(is_text(path) for path in [state.start.root, *paths, *troubled])


def _frame(state: State, escaped: bool) -> Dict[str, Any]:
    return {
        "path": shown([state.start.root], escaped)[0],
        "engine": state.engine,
        "complete": state.complete,
        "timed_out": state.timed_out,
        "unreadable": state.trouble.count,
        "problems": state.trouble.shown(escaped),
        "escaped": escaped,
    }

"""What a searching process does: jobs that arrive as frames, each over a list of files.

Python holds its interpreter lock while an expression runs, and some expressions run for ever; so they run in processes
of their own that can be killed. They end with the worker, whose end of their standard input closes then.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from types import FrameType
from typing import Any, Dict, List, Optional, Tuple

from .. import wire
from .grep_emit import Compiled
from .grep_lines import Limits, Page
from .grep_match import Matcher, from_json, line_count, load

MEMORY_BYTES = 1 << 30
_PREFILTER_WORTH = 8


class Searcher:
    """Answers jobs for one pattern at a time."""

    def __init__(self) -> None:
        self._known: Optional[Dict[str, Any]] = None
        self._compiled: Optional[Compiled] = None
        self._matcher: Optional[Matcher] = None
        self._grep: Optional[subprocess.Popen[bytes]] = None
        self._grep_fits = True

    def stop(self, _signum: int, _frame: Optional[FrameType]) -> None:
        """End this process, and first the prefilter it may be waiting for."""
        if self._grep is not None and self._grep.poll() is None:
            self._grep.kill()
        os._exit(1)

    def answer(self, job: Dict[str, Any], body: bytes) -> Tuple[Dict[str, Any], bytes]:
        """Carry out one job; ``body`` holds paths, each ended by NUL, relative to the job's ``root``."""
        os.chdir(os.fsencode(job["root"]))
        matcher = self._prepare(job["pattern"])
        paths = body.split(b"\0")[:-1]
        if job["kind"] == "lines":
            return self._lines(matcher, paths, Limits(**job["limits"]))
        chosen = self._prefiltered(paths, job["grep"]) if job["grep"] and self._grep_fits else paths
        if job["kind"] == "files" and self._grep_is_exact and chosen is not paths:
            return {"counts": [1] * len(chosen), "bad": []}, b"".join(path + b"\0" for path in chosen)
        found: List[bytes] = []
        counts: List[int] = []
        bad: List[Tuple[str, str]] = []
        for path in chosen:
            try:
                buffer = load(path)
                if job["kind"] == "files":
                    count = int(matcher.matches(buffer))
                else:
                    count = sum(1 + line_count(buffer, span.start, span.end) for span in matcher.spans(buffer))
            except (OSError, ValueError, MemoryError) as error:
                bad.append((os.fsdecode(path), _why(error)))
                continue
            if count:
                found.append(path)
                counts.append(count)
        return {"counts": counts, "bad": bad}, b"".join(path + b"\0" for path in found)

    def _prepare(self, pattern: Dict[str, Any]) -> Matcher:
        if self._matcher is None or pattern != self._known:
            self._compiled = from_json(pattern)
            self._matcher = Matcher(self._compiled)
            self._known = pattern
        return self._matcher

    def _lines(self, matcher: Matcher, paths: List[bytes], limits: Limits) -> Tuple[Dict[str, Any], bytes]:
        page = Page(limits)
        files: List[Tuple[int, List[str]]] = []
        bad: List[Tuple[str, str]] = []
        for index, path in enumerate(paths):
            try:
                lines = page.add(load(path), matcher)
            except (OSError, ValueError, MemoryError) as error:
                bad.append((os.fsdecode(path), _why(error)))
                continue
            if lines:
                files.append((index, lines))
            if page.full:
                break
        return {"files": files, "bad": bad, **page.progress()}, b""

    def _prefiltered(self, paths: List[bytes], grep: str) -> List[bytes]:
        """Return the files that can match, as GNU grep sees it; all of them when it cannot tell."""
        choice = self._grep_argv()
        if choice is None or len(paths) < _PREFILTER_WORTH:
            return paths
        env = {"LC_ALL": "C", "PATH": os.environ.get("PATH", os.defpath)}
        # -I leaves binary files out, -a reads them like text.
        binary = b"-lZIs" if self._grep_is_exact else b"-lZas"
        argv = [os.fsencode(grep), binary, *choice, b"--", *(b"./" + path for path in paths)]
        try:
            self._grep = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
            )
        except OSError:
            self._grep_fits = False
            return paths
        out, _ = self._grep.communicate()
        code, self._grep = self._grep.returncode, None
        if code in (0, 1):
            return [path[2:] for path in out.split(b"\0")[:-1]]
        # 2 is also the answer for a single file that cannot be read.
        self._grep_fits = code == 2 and bool(out)
        return paths

    @property
    def _grep_is_exact(self) -> bool:
        """Whether grep's answer needs no second look: all that is searched for is plain text within a line."""
        compiled = self._compiled
        return compiled is not None and compiled.plain and not compiled.ignore_case and not compiled.multiline

    def _grep_argv(self) -> Optional[List[bytes]]:
        compiled = self._compiled
        if compiled is None:
            return None
        literals = [max(literal.split(b"\n"), key=len) for literal in compiled.literals]
        if literals and all(literals):
            case = [b"-i"] if compiled.ignore_case else []
            return [b"-F", *case, *(part for literal in literals for part in (b"-e", literal))]
        return None if compiled.multiline else [b"-E", b"-e", compiled.extended]


def _why(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "searching it takes more than %d MiB" % (MEMORY_BYTES >> 20)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def serve() -> int:
    """Answer jobs until the input ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    searcher = Searcher()
    signal.signal(signal.SIGTERM, searcher.stop)
    source, out = sys.stdin.buffer, sys.stdout.buffer

    def read_exactly(count: int) -> Optional[bytes]:
        raw = source.read(count)
        return raw if len(raw) == count else None

    while True:
        frame = wire.read_frame(read_exactly)
        if frame is None:
            return 0
        out.writelines(wire.encode(*searcher.answer(*frame)))
        out.flush()

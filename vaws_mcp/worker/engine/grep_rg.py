"""Search with ``rg`` where it is installed: which files match, or how many lines in each."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import time
from typing import Dict, Generator, Iterator, List, NamedTuple, Optional, Tuple

from ..request import Request
from .child import Child, Spawn
from .environment import base_environment
from .grep_emit import Compiled
from .patterns import expand_braces
from .walk import VERSION_CONTROL

MEMORY_BYTES = 1 << 30
OLDEST = (12, 0)
_ERROR_BYTES = 1 << 16
_SAFE_GLOB = re.compile(rb"[A-Za-z0-9_.*?+-]+")
_ABOUT_FILE = re.compile(rb"^\./|\(os error \d+\)|^WARNING: stopped searching binary file")
_versions: Dict[str, Optional[Tuple[int, int]]] = {}


class Failed(Exception):  # noqa: N818 - the search goes on in another way
    """rg could not do it: the pattern is too large for it, memory ran out, or it is too old."""


class Plan(NamedTuple):
    """What rg is asked. ``names``: patterns of names of which a file must match one; empty for all files."""

    compiled: Compiled
    counting: bool
    hidden: bool
    respect_gitignore: bool
    names: List[str]


def find_rg() -> Optional[str]:
    """Return the path of a usable rg on the PATH of commands, or None."""
    path = shutil.which("rg", path=base_environment().get("PATH", os.defpath))
    if path is None:
        return None
    if path not in _versions:
        _versions[path] = _version(path)
    version = _versions[path]
    return path if version is not None and version >= OLDEST else None


def _version(path: str) -> Optional[Tuple[int, int]]:
    try:
        ran = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.match(rb"ripgrep (\d+)\.(\d+)", ran.stdout)
    return (int(found.group(1)), int(found.group(2))) if found else None


def argv(rg: str, plan: Plan) -> List[bytes]:
    """Return rg's arguments. Its working directory is the root of the search."""
    words = [rg.encode(), b"--no-config", b"--null", b"--color=never"]
    words += [b"--no-unicode", b"--encoding=none", b"--no-mmap", b"--no-ignore-dot", b"--no-ignore-global"]
    words += [b"--no-ignore-exclude", b"--count" if plan.counting else b"--files-with-matches", b"--with-filename"]
    if not plan.respect_gitignore:
        words.append(b"--no-ignore")
    if plan.hidden:
        words.append(b"--hidden")
        words += [b"--glob=!" + name for name in sorted(VERSION_CONTROL)]
    if plan.compiled.multiline:
        words.append(b"--multiline")
    for name in _type_globs(plan.names):
        words += [b"--type-add=vaws:" + name]
    if _type_globs(plan.names):
        words.append(b"--type=vaws")
    return [*words, b"--regexp=" + plan.compiled.regex, b"--", b"./"]


def _type_globs(patterns: List[str]) -> List[bytes]:
    """Return globs for names that hold for all files the patterns can match; empty when there is no such list.

    rg's own option for globs would also bring back files that are ignored; its file types do not.
    """
    found: List[bytes] = []
    for text in patterns:
        for pattern in expand_braces(text.encode("utf-8", "surrogateescape")):
            name = pattern.rstrip(b"/").rsplit(b"/", 1)[-1]
            if not _SAFE_GLOB.fullmatch(name) or b"**" in name:
                return []
            found.append(name)
    return found


class Search:
    """One run of rg. ``problems`` are files that it could not read."""

    def __init__(self, request: Request, root: bytes, words: List[bytes], count: bool) -> None:
        self.problems: List[bytes] = []
        self.problem_count = 0
        self._request = request
        self._root = root
        self._words = words
        self._count = count
        self._errors = bytearray()

    def found(self) -> Generator[Tuple[bytes, int], None, None]:
        """Yield (path, number of lines, or 1) as rg finds them; leaving early ends rg.

        Raises: Failed, Refusal when the request is interrupted.
        """
        out_fd, child_out = os.pipe()
        error_fd, child_error = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        child: Optional[Child] = None
        try:
            try:
                words = [os.fsdecode(word) for word in self._words]
                child = Child(Spawn(words, os.fsdecode(self._root), base_environment(), [null, child_out, child_error]))
            except OSError as error:
                raise Failed(str(error)) from None
            finally:
                for fd in (child_out, child_error, null):
                    os.close(fd)
            with contextlib.suppress(OSError):
                resource.prlimit(child.pid, resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
            yield from self._records(self._chunks(out_fd, error_fd))
            self._judge(child.reap(10.0))
        finally:
            if child is not None:
                _end(child)
            os.close(out_fd)
            os.close(error_fd)

    def _chunks(self, out_fd: int, error_fd: int) -> Iterator[bytes]:
        request, poller = self._request, select.poll()
        open_fds = {out_fd, error_fd}
        for fd in open_fds:
            poller.register(fd, select.POLLIN)
        if request.waker is not None:
            poller.register(request.waker.fileno(), select.POLLIN)
        while open_fds:
            request.check()
            wait_s = 1.0 if request.deadline is None else min(1.0, max(0.0, request.deadline - time.monotonic()))
            for fd, _ in poller.poll(int(wait_s * 1000) + 1):
                if fd not in open_fds:
                    request.check()
                    if request.waker is not None:
                        request.waker.clear()
                    continue
                chunk = os.read(fd, 1 << 16)
                if not chunk:
                    poller.unregister(fd)
                    open_fds.discard(fd)
                elif fd == out_fd:
                    yield chunk
                else:
                    self._errors += chunk[: max(0, _ERROR_BYTES - len(self._errors))]
                    self.problem_count += chunk.count(b"\n")

    def _records(self, chunks: Iterator[bytes]) -> Iterator[Tuple[bytes, int]]:
        rest = b""
        for chunk in chunks:
            rest += chunk
            if not self._count:
                *paths, rest = rest.split(b"\0")
                for path in paths:
                    yield path[2:], 1
                continue
            while True:
                path, nul, behind = rest.partition(b"\0")
                number, end, after = behind.partition(b"\n")
                if not nul or not end:
                    break
                rest = after
                yield path[2:], int(number)

    def _judge(self, code: Optional[int]) -> None:
        lines = bytes(self._errors).splitlines()
        if code not in (0, 1, 2) or not all(_ABOUT_FILE.search(line) for line in lines):
            raise Failed(bytes(self._errors[:500]).decode("utf-8", "replace") or f"exit {code}")
        self.problems = lines[:5]


def _end(child: Child) -> None:
    if child.reap(0) is None:
        child.kill_unreaped(signal.SIGKILL)
        child.reap(10.0)
    child.close()

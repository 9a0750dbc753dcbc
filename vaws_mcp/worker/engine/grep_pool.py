"""Searching processes, kept for a while for the next search, and one search's use of several of them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .. import wire
from ..refusal import Refusal
from ..request import Request
from .child import Child, Spawn
from .environment import package_root

MAX_PROCESSES = 8
KEPT = 2
KEEP_S = 30.0
_STOP_S = 0.5
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from {}.grep_jobs import serve; sys.exit(serve())"

Answer = Tuple[Dict[str, Any], bytes]


class Job(NamedTuple):
    """One piece of work for a searching process."""

    head: Dict[str, Any]
    paths: List[bytes]


class Lost(Exception):  # noqa: N818 - what happened, not whose fault
    """A searching process ended in the middle of a job."""


class Process:
    """One searching process and the frames to and from it."""

    def __init__(self) -> None:
        child_in, self._write_fd = os.pipe()
        self.read_fd, child_out = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        argv = [sys.executable, "-I", "-S", "-c", _BOOT.format(__package__), package_root()]
        env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        try:
            self._child = Child(Spawn(argv, "/", env, [child_in, child_out, null]))
        except OSError as error:
            os.close(self._write_fd)
            os.close(self.read_fd)
            raise Refusal("resource_limit", f"a searching process could not be started: {error}") from None
        finally:
            for fd in (child_in, child_out, null):
                os.close(fd)
        os.set_blocking(self.read_fd, False)
        self._buffer = bytearray()
        self.idle_since = 0.0

    def send(self, job: Job) -> None:
        """Give it a job; it takes the job at once, since it waits for one.

        Raises: Lost.
        """
        body = b"".join(path + b"\0" for path in job.paths)
        try:
            for part in wire.encode(job.head, body):
                view = memoryview(part)
                while view:
                    view = view[os.write(self._write_fd, view) :]
        except OSError:
            raise Lost from None

    def receive(self) -> Optional[Answer]:
        """Take what has arrived; return the answer when it is complete.

        Raises: Lost.
        """
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(self.read_fd, 1 << 20)
            if not chunk:
                raise Lost
            self._buffer += chunk
        if len(self._buffer) < wire.HEADER_BYTES:
            return None
        size = wire.HEADER_BYTES + sum(wire.lengths(bytes(self._buffer[: wire.HEADER_BYTES])))
        if len(self._buffer) < size:
            return None
        parts = iter(self._split(size))
        return wire.read_frame(lambda _count: next(parts))

    def _split(self, size: int) -> List[bytes]:
        head_bytes, _ = wire.lengths(bytes(self._buffer[: wire.HEADER_BYTES]))
        split = wire.HEADER_BYTES + head_bytes
        raw = bytes(self._buffer)
        self._buffer.clear()
        return [raw[: wire.HEADER_BYTES], raw[wire.HEADER_BYTES : split], raw[split:size]]

    def stop(self) -> None:
        """End the process, whatever it does, and wait for it."""
        self._child.kill_unreaped(signal.SIGTERM)
        if self._child.reap(_STOP_S) is None:
            self._child.kill_unreaped(signal.SIGKILL)
            self._child.reap(_STOP_S * 10)
        self._child.close()
        os.close(self._write_fd)
        os.close(self.read_fd)


class _Kept:
    """Idle processes; a timer ends those that nobody has needed for a while."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: List[Process] = []
        self._timed = False

    def take(self) -> Process:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        return process or Process()

    def give_back(self, process: Process) -> None:
        process.idle_since = time.monotonic()
        with self._lock:
            full = len(self._idle) >= KEPT
            if not full:
                self._idle.append(process)
                self._start_timer()
        if full:
            process.stop()

    def _start_timer(self) -> None:
        if not self._timed:
            self._timed = True
            timer = threading.Timer(KEEP_S, self._expire)
            timer.daemon = True
            timer.start()

    def _expire(self) -> None:
        limit = time.monotonic() - KEEP_S
        with self._lock:
            old = [process for process in self._idle if process.idle_since <= limit]
            self._idle = [process for process in self._idle if process.idle_since > limit]
            self._timed = False
            if self._idle:
                self._start_timer()
        for process in old:
            process.stop()


_KEPT = _Kept()


def process_count() -> int:
    """Return how many processes one search uses."""
    return max(1, min(MAX_PROCESSES, len(os.sched_getaffinity(0)), 4))


def run_jobs(request: Request, jobs: Iterator[Job], most: int) -> Iterator[Tuple[Job, Optional[Answer]]]:
    """Carry out jobs in up to ``most`` processes and yield each with its answer, None when its process was lost.

    Answers come as they are ready. The jobs' iterator advances while processes work.
    Raises: Refusal when the request is interrupted; its processes are gone then.
    """
    busy: Dict[int, Tuple[Process, Job]] = {}
    free: List[Process] = []
    following = next(jobs, None)
    try:
        while busy or following is not None:
            while following is not None and len(busy) < most:
                process = _send(free.pop() if free else _KEPT.take(), following)
                busy[process.read_fd] = (process, following)
                following = next(jobs, None)
            for fd in _ready(request, list(busy)):
                process, job = busy[fd]
                try:
                    answer = process.receive()
                except Lost:
                    del busy[fd]
                    process.stop()
                    yield job, None
                    continue
                if answer is not None:
                    del busy[fd]
                    free.append(process)
                    yield job, answer
    finally:
        for process, _ in busy.values():
            process.stop()
        for process in free:
            _KEPT.give_back(process)


def _send(process: Process, job: Job) -> Process:
    """Give a job to a process, or to a new one when that one has ended meanwhile."""
    try:
        process.send(job)
    except Lost:
        process.stop()
        process = Process()
        with contextlib.suppress(Lost):  # its answer will be missing too, and is reported then
            process.send(job)
    return process


def _ready(request: Request, fds: List[int]) -> List[int]:
    """Wait until something can be read, or the request is interrupted."""
    request.check()
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    if request.waker is not None:
        poller.register(request.waker.fileno(), select.POLLIN)
    remaining = 1.0 if request.deadline is None else min(1.0, max(0.0, request.deadline - time.monotonic()))
    ready = [fd for fd, _ in poller.poll(int(remaining * 1000) + 1)]
    if request.waker is not None and request.waker.fileno() in ready:
        ready.remove(request.waker.fileno())
        request.waker.clear()
    request.check()
    return ready

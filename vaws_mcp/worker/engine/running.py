"""A command while it runs: its process, its pipes, and the one place where they are served."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..refusal import Refusal, from_os_error
from ..request import Request, Waker
from .child import Child, Spawn
from .drain import Drained, Family, Pace, drain
from .inflight import IN_FLIGHT
from .outputs import SINKS, Budget, Stream, open_logs, open_streams, pipe_of
from .stdin import Stdin

LATE_OUTPUT_S = 0.1
# A session leader that opens a terminal gets it as its controlling one.
_ON_TERMINAL = ["/bin/sh", "-c", 'exec <>"$1" >&0 2>&0; shift; exec "$@"', "sh"]


class Plan(NamedTuple):
    """A command as it will be started.

    ``marker`` is the assignment in its environment that its family is found by.
    Units: times in seconds, ``max_output_bytes`` per stream, ``log_limit`` for all streams together.
    """

    argv: List[str]
    shown: str
    cwd: str
    env: Dict[str, str]
    env_source: str
    marker: str
    stdin_open: bool
    tty: bool
    timeout_s: Optional[float]
    yield_s: Optional[float]
    detach: bool
    stop_grace_s: float
    stream: bool
    max_output_bytes: int
    job_id: str
    log_dir: Optional[str]
    log_limit: int


class Running:
    """A started command. Whoever has it serves its pipes from one thread at a time and releases it at the end.

    Raises: Refusal when it cannot be started.
    """

    def __init__(self, request: Request, plan: Plan, on_output: Callable[[Stream, bytes], None]) -> None:
        self.plan = plan
        self.started = time.monotonic()
        self.exited = False
        self.on_output: Optional[Callable[[Stream, bytes], None]] = on_output if plan.stream else None
        self._waker = request.waker
        self._others: Dict[int, Callable[[], None]] = {}
        try:
            self.streams = open_streams(plan.max_output_bytes, terminal=plan.tty)
        except OSError as error:
            raise from_os_error(error) from None
        self.outputs = frozenset(filter(None, (pipe_of(stream.fd) for stream in self.streams)))
        self._slot: Optional[int] = None
        self._stdin: Optional[Stdin] = None
        self._child: Optional[Child] = None
        try:
            self._log_from_the_start()
            self._stdin = Stdin(request, plan.stdin_open, self.streams[0].fd if plan.tty else -1)
            self._child = self._start()
        except BaseException:
            self.release()
            raise
        self._slot = IN_FLIGHT.enter(self.child.identity, plan.marker)
        self._by_fd = {stream.fd: stream for stream in self.streams}
        self._poller = select.poll()
        for fd in (*self._by_fd, self.child.exit_fd):
            self._poller.register(fd, select.POLLIN)
        if self._waker is not None:
            self._poller.register(self._waker.fileno(), select.POLLIN)

    def _log_from_the_start(self) -> None:
        """Open the logs that were asked for; those of what may become a job are opened when they are needed."""
        if self.plan.log_dir is None or self.plan.yield_s is not None:
            return
        try:
            open_logs(self.streams, self.plan.log_dir, Budget())
        except OSError as error:
            raise from_os_error(error) from None

    @property
    def child(self) -> Child:
        """The process."""
        assert self._child is not None  # noqa: S101 - only missing while the constructor fails
        return self._child

    @property
    def stdin(self) -> Stdin:
        """Its standard input."""
        assert self._stdin is not None  # noqa: S101 - only missing while the constructor fails
        return self._stdin

    def _start(self) -> Child:
        plan, argv = self.plan, self.plan.argv
        stdio = [self.stdin.child_fd, *(stream.child_fd for stream in self.streams)]
        if plan.tty:
            slave = self.streams[0].child_fd
            argv, stdio = [*_ON_TERMINAL, os.ttyname(slave), *argv], [slave, slave, slave]
        try:
            child = Child(Spawn(argv, plan.cwd, plan.env, stdio))
        except OSError as error:
            raise _cannot_start(plan, error) from None
        self.stdin.close_child_end()
        for stream in self.streams:
            stream.close_child_end()
        return child

    def pass_to(self, waker: Optional[Waker]) -> None:
        """Let another thread, which is woken by ``waker``, serve the pipes from now on; nobody sees output events."""
        if self._waker is not None:
            self._poller.unregister(self._waker.fileno())
        self._waker = waker
        if waker is not None:
            self._poller.register(waker.fileno(), select.POLLIN)
        self.on_output = None

    def known_as_job(self) -> None:
        """Take the command out of the list of those that end with a killed worker: its record finds it from now on."""
        IN_FLIGHT.leave(self._slot)
        self._slot = None

    def watch(self, fd: int, serve: Callable[[], None]) -> None:
        """Call ``serve`` whenever this descriptor is readable while the pipes are served."""
        self._others[fd] = serve
        self._poller.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        """Forget a descriptor."""
        if self._others.pop(fd, None) is not None:
            self._poller.unregister(fd)

    def serve(self, wait_s: Optional[float]) -> bool:
        """Wait for one round of events and handle them; True when the command has ended."""
        stdin = self.stdin
        wanted = stdin.wanted()
        write_fd = stdin.write_fd
        if wanted:
            self._poller.register(write_fd, select.POLLOUT)
        for fd, _ in self._poller.poll(None if wait_s is None else int(wait_s * 1000) + 1):
            if fd in self._by_fd:
                self._read(self._by_fd[fd])
            elif fd == self.child.exit_fd:
                self.exited = True
                self._poller.unregister(fd)
            elif self._waker is not None and fd == self._waker.fileno():
                self._waker.clear()
            elif fd == write_fd:
                stdin.write()
            elif fd in self._others:
                self._others[fd]()
        if wanted:
            self._poller.unregister(write_fd)
        return self.exited

    def _read(self, stream: Stream) -> None:
        chunk = stream.read()
        if stream.ended:
            self._poller.unregister(stream.fd)
        elif chunk and self.on_output is not None:
            self.on_output(stream, chunk)

    def read_late_output(self) -> None:
        """Read what is still in the pipes, and for a moment what comes from whoever else holds them."""
        owed = {stream: stream.total + stream.waiting() for stream in self.streams}
        limit = time.monotonic() + LATE_OUTPUT_S
        while not all(stream.ended for stream in self.streams):
            left = limit - time.monotonic()
            # On a busy machine the time is over before the command's own output is read.
            if left <= 0 and all(stream.ended or stream.total >= end for stream, end in owed.items()):
                return
            self.serve(max(0.0, left))

    def drain(self) -> Drained:
        """End the whole family while its output is still read."""
        child = self.child
        if child.identity is None:
            child.kill_unreaped(signal.SIGKILL)
            return Drained(1, [])
        first = (signal.SIGHUP, self.plan.stop_grace_s) if self.plan.tty else None
        return drain(self.family(), Pace(self.plan.stop_grace_s, pause=self._pause, first=first))

    def family(self) -> Family:
        """Return the family, which can be found as long as the child is not reaped."""
        child = self.child
        return Family(child.identity, child.pid, self.plan.marker.encode("ascii"), self.outputs)

    def _pause(self, seconds: float) -> None:
        limit = time.monotonic() + seconds
        while True:
            left = limit - time.monotonic()
            if left <= 0:
                return
            self.serve(left)

    def reap(self) -> Tuple[Optional[int], Optional[int]]:
        """Wait for the ended child and return (exit code, signal), of which one is None."""
        code = self.child.reap(1.0)
        return (None, -code) if code is not None and code < 0 else (code, None)

    def release(self) -> None:
        """Close everything; a pipe that a background child holds is read on by a thread of its own."""
        self.known_as_job()
        if self._stdin is not None:
            self._stdin.close()
        if self._child is not None:
            self._child.close()
        for stream in self.streams:
            if stream.ended or stream.child_fd >= 0:
                stream.close()
            else:
                SINKS.adopt(stream)


def _cannot_start(plan: Plan, error: OSError) -> Refusal:
    if not os.path.isdir(plan.cwd):
        return Refusal("not_found", f"{plan.cwd}: the working directory does not exist", "remote_env")
    if isinstance(error, FileNotFoundError):
        hint = "Check the name, PATH and env_files, or give the full path."
        return Refusal("command_not_found", f"{plan.argv[0]}: command not found", "remote_env", hint=hint)
    return from_os_error(error, plan.argv[0])


def ending(code: Optional[int], signum: Optional[int]) -> Dict[str, Any]:
    """Return the JSON form of how a command ended."""
    return {"exit_code": code, "signal": signum, "signal_name": _signal_name(signum)}


def _signal_name(signum: Optional[int]) -> Optional[str]:
    if signum is None:
        return None
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIG{signum}"

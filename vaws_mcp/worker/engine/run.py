"""``run``: one command, its output and its end, with its whole family gone when it is cancelled or timed out."""

from __future__ import annotations

import os
import select
import signal
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Optional

from ..params import Params
from ..refusal import Refusal, bad_request, from_os_error
from ..request import Answer, Request
from . import environment
from .child import Child, Spawn
from .drain import Drained, Family, Pace, drain
from .outputs import SINKS, Stream, describe, open_streams

MARKER = "VAWS_REQUEST_ID"
LATE_OUTPUT_S = 0.1
_WORKER_TOKEN = os.urandom(8).hex()  # a pid would come again, and with it the marker of an old background process
_LONGEST_GRACE_S = 10.0  # a lost connection ends within the drain bound of the server
_MOST_OUTPUT_BYTES = 64 << 20
_PIPE_BYTES = 1 << 15  # a body up to this size fits into a new pipe on every kernel


class Plan(NamedTuple):
    """A command as it will be started. Units: times in seconds, ``max_output_bytes`` per stream."""

    argv: List[str]
    cwd: str
    env: Dict[str, str]
    env_source: str
    stdin_open: bool
    timeout_s: Optional[float]
    stop_grace_s: float
    stream: bool
    max_output_bytes: int
    log_dir: Optional[str]


def run(request: Request) -> Answer:
    """Run a command to its end and answer with what is kept of its output."""
    plan = _plan(request)
    started = time.monotonic()
    streams = _open_streams(plan)
    try:
        stdin = _Stdin(request, plan.stdin_open)
        try:
            return _Running(request, plan, streams, stdin).finish(started)
        finally:
            stdin.close()
    finally:
        for stream in streams:
            if stream.ended or stream.child_fd >= 0:
                stream.close()
            else:
                SINKS.adopt(stream)


def shell() -> str:
    """Return the shell that commands run in."""
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def _plan(request: Request) -> Plan:
    params = request.params
    login = params.flag("login_shell")
    env, source = environment.prepare(params.mapping("env_spec"), request.check)
    for name, value in params.environment("env").items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    env[MARKER] = f"{_WORKER_TOKEN}-{request.id}"
    cwd = params.optional_text("cwd")
    log_dir = params.optional_text("log_dir")
    if log_dir is None and params.flag("log"):
        log_dir = os.path.join(environment.home(), ".vaws", "jobs", _job_id(params))
    return Plan(
        argv=_argv(params, login),
        cwd=environment.home() if cwd is None else os.path.expanduser(cwd),
        env=env,
        env_source="login_shell" if login else source,
        stdin_open=params.flag("stdin_open"),
        timeout_s=params.optional_seconds("timeout_s"),
        stop_grace_s=min(params.seconds("stop_grace_s", 2.0), _LONGEST_GRACE_S),
        stream=params.flag("stream"),
        max_output_bytes=min(params.integer("max_output_bytes", 30000), _MOST_OUTPUT_BYTES),
        log_dir=None if log_dir is None else os.path.expanduser(log_dir),
    )


def _job_id(params: Params) -> str:
    given = params.optional_text("job_id")
    if given is None:
        return "job-{}-{}".format(time.strftime("%Y%m%dT%H%M%S", time.gmtime()), os.urandom(4).hex())
    if "/" in given or given.startswith("."):
        raise bad_request(f"job_id must be a plain name, not {given!r}")
    return given


def _argv(params: Params, login: bool) -> List[str]:
    argv, command = params.texts("argv"), params.optional_text("command")
    if bool(argv) == (command is not None):
        raise bad_request("run needs either argv or command")
    if command is not None:
        return [shell(), "-lc" if login else "-c", command]
    if login:
        return [shell(), "-lc", 'exec "$@"', shell(), *argv]
    return argv


def _open_streams(plan: Plan) -> List[Stream]:
    try:
        return open_streams(plan.max_output_bytes, plan.log_dir)
    except OSError as error:
        raise from_os_error(error) from None


class _Stdin:
    """Standard input of a command: nothing, the request's body, or the body and then what the caller sends."""

    def __init__(self, request: Request, is_open: bool) -> None:
        self.write_fd = -1
        self._request = request
        self._rest = memoryview(b"")
        body = request.body
        if is_open:
            self.child_fd, self.write_fd = os.pipe()
            os.set_blocking(self.write_fd, False)
            self._rest = memoryview(body)
        elif not body:
            self.child_fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        elif len(body) <= _PIPE_BYTES:
            self.child_fd, write_fd = os.pipe()
            os.write(write_fd, body)
            os.close(write_fd)
        else:
            self.child_fd = _file_with(body)

    def wanted(self) -> bool:
        """Tell whether there is something to write now."""
        return self.write_fd >= 0 and bool(self._rest or self._request.chunks or self._request.chunks_ended)

    def write(self) -> None:
        """Write what the pipe takes; close it after the last chunk or when nobody reads it any more."""
        if not self._rest and self._request.chunks:
            self._rest = memoryview(self._request.chunks.popleft())
        try:
            if self._rest:
                self._rest = self._rest[os.write(self.write_fd, self._rest) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self.close_pipe()
            return
        if self._request.chunks_ended and not self._rest and not self._request.chunks:
            self.close_pipe()

    def close_pipe(self) -> None:
        """Close our end, which the command sees as the end of its input."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close_child_end(self) -> None:
        """Close the child's end here, once the child has it."""
        if self.child_fd >= 0:
            os.close(self.child_fd)
            self.child_fd = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_child_end()
        self.close_pipe()


def _file_with(body: bytes) -> int:
    with tempfile.TemporaryFile() as stream:
        stream.write(body)
        stream.flush()
        stream.seek(0)
        return os.dup(stream.fileno())


class _Running:
    """A command between its start and its answer."""

    def __init__(self, request: Request, plan: Plan, streams: List[Stream], stdin: _Stdin) -> None:
        self._request = request
        self._plan = plan
        self._streams = streams
        self._stdin = stdin
        self._by_fd = {stream.fd: stream for stream in streams}
        self._child = self._start()
        self._poller = select.poll()
        for fd in (*self._by_fd, self._child.exit_fd):
            self._poller.register(fd, select.POLLIN)
        if request.waker is not None:
            self._poller.register(request.waker.fileno(), select.POLLIN)

    def _start(self) -> Child:
        stdio = [self._stdin.child_fd, *(stream.child_fd for stream in self._streams)]
        try:
            child = Child(Spawn(self._plan.argv, self._plan.cwd, self._plan.env, stdio))
        except OSError as error:
            raise self._cannot_start(error) from None
        self._stdin.close_child_end()
        for stream in self._streams:
            stream.close_child_end()
        return child

    def _cannot_start(self, error: OSError) -> Refusal:
        plan = self._plan
        if not os.path.isdir(plan.cwd):
            return Refusal("not_found", f"{plan.cwd}: the working directory does not exist", "remote_env")
        if isinstance(error, FileNotFoundError):
            hint = "Check the name, PATH and env_files, or give the full path."
            return Refusal("command_not_found", f"{plan.argv[0]}: command not found", "remote_env", hint=hint)
        return from_os_error(error, plan.argv[0])

    def finish(self, started: float) -> Answer:
        """Wait for the end, drain the family when it was not a normal one, and make the answer."""
        drained = Drained(0, [])
        try:
            cause = self._wait(started)
            if cause is not None:
                drained = self._drain()
            self._read_late_output()
            code = self._child.reap(1.0)
        finally:
            self._child.close()
        if cause in ("cancelled", "deadline"):
            raise self._request.refusal(cause, {"drained": drained.as_dict()})
        result = self._result(code, started)
        result["timed_out"] = cause == "timeout"
        result["drained"] = drained.as_dict()
        kept = [stream.kept() for stream in self._streams]
        for stream, pair in zip(self._streams, kept):
            result[stream.name] = describe(stream, pair)
        return result, b"".join(part for pair in kept for part in pair)

    def _result(self, code: Optional[int], started: float) -> Dict[str, Any]:
        signum = None if code is None or code >= 0 else -code
        return {
            "exit_code": code if signum is None else None,
            "signal": signum,
            "signal_name": _signal_name(signum),
            "cancelled": False,
            "duration_ms": round((time.monotonic() - started) * 1000, 3),
            "env_source": self._plan.env_source,
            "log_dir": self._plan.log_dir,
        }

    def _wait(self, started: float) -> Optional[str]:
        """Serve the pipes until the command ends (None), is interrupted (the reason) or is out of time."""
        limit = None if self._plan.timeout_s is None else started + self._plan.timeout_s
        limits = [moment for moment in (limit, self._request.deadline) if moment is not None]
        nearest = min(limits) if limits else None
        while True:
            cause = self._request.interrupted()
            if cause is not None:
                return cause
            if limit is not None and time.monotonic() >= limit:
                return "timeout"
            if self._serve(None if nearest is None else max(0.0, nearest - time.monotonic())):
                return None

    def _serve(self, wait_s: Optional[float]) -> bool:
        """Wait for one round of events and handle them; True when the command has ended."""
        stdin = self._stdin
        write_fd = stdin.write_fd
        if stdin.wanted():
            self._poller.register(write_fd, select.POLLOUT)
        ended = False
        for fd, _ in self._poller.poll(None if wait_s is None else int(wait_s * 1000) + 1):
            if fd in self._by_fd:
                self._read(self._by_fd[fd])
            elif fd == self._child.exit_fd:
                ended = True
            elif self._request.waker is not None and fd == self._request.waker.fileno():
                self._request.waker.clear()
            elif fd == write_fd:
                self._poller.unregister(fd)
                stdin.write()
        return ended

    def _read(self, stream: Stream) -> None:
        chunk = stream.read()
        if stream.ended:
            self._poller.unregister(stream.fd)
        elif chunk and self._plan.stream:
            offset = stream.total - len(chunk)
            self._request.emit("output", {"stream": stream.name, "offset": offset}, chunk)

    def _read_late_output(self) -> None:
        """Read what is still in the pipes, and for a moment what comes from whoever else holds them."""
        limit = time.monotonic() + LATE_OUTPUT_S
        self._poller.unregister(self._child.exit_fd)
        while not all(stream.ended for stream in self._streams):
            left = limit - time.monotonic()
            if left <= 0:
                return
            self._serve(left)

    def _drain(self) -> Drained:
        child = self._child
        if child.identity is None:
            child.kill_unreaped(signal.SIGKILL)
            return Drained(1, [])
        marker = f"{MARKER}={self._plan.env[MARKER]}"
        family = Family(child.identity, child.pid, marker.encode("ascii"))
        return drain(family, Pace(self._plan.stop_grace_s, pause=self._pump))

    def _pump(self, seconds: float) -> None:
        limit = time.monotonic() + seconds
        while True:
            left = limit - time.monotonic()
            if left <= 0:
                return
            if self._serve(left):
                time.sleep(max(0.0, limit - time.monotonic()))


def _signal_name(signum: Optional[int]) -> Optional[str]:
    if signum is None:
        return None
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIG{signum}"

"""``run``: one command, its output and its end, with its whole family gone when it is cancelled or timed out.

With ``yield_s`` a command that takes longer is answered as a job, which goes on without its request.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Optional

from ..params import Params
from ..refusal import bad_request, from_os_error
from ..request import Answer, Request
from . import environment
from .drain import Drained
from .outputs import Budget, Stream, describe, open_logs
from .running import Plan, Running, ending

MARKER = "VAWS_REQUEST_ID"
_WORKER_TOKEN = os.urandom(8).hex()  # a pid would come again, and with it the marker of an old background process
_LONGEST_GRACE_S = 10.0  # a lost connection ends within the drain bound of the server
_MOST_OUTPUT_BYTES = 64 << 20
_LOG_LIMIT_BYTES = 2 << 30


def run(request: Request) -> Answer:
    """Run a command to its end, or until it becomes a job, and answer with what is kept of its output."""
    plan = _plan(request)
    running = Running(request, plan, _emitter(request))
    handed_over = False
    try:
        if plan.yield_s is not None:
            _spill_on_overflow(running)
        cause = _wait(request, running)
        if cause == "yield":
            answer = _hand_over(running)
            handed_over = True
            return answer
        return _finish(request, running, cause)
    finally:
        if not handed_over:
            running.release()


def shell() -> str:
    """Return the shell that commands run in."""
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def _plan(request: Request) -> Plan:
    params = request.params
    login, tty = params.flag("login_shell"), params.flag("tty")
    env, source = environment.prepare(params.mapping("env_spec"), request.check)
    if tty:
        env.setdefault("TERM", "xterm-256color")
    for name, value in params.environment("env").items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    env[MARKER] = f"{_WORKER_TOKEN}-{request.id}"
    cwd = params.optional_text("cwd")
    yield_s = params.optional_seconds("yield_s")
    job_id = _job_id(params)
    log_dir = params.optional_text("log_dir")
    if log_dir is None and (params.flag("log") or yield_s is not None):
        log_dir = os.path.join(environment.home(), ".vaws", "jobs", job_id)
    argv = _argv(params, login)
    return Plan(
        argv=argv,
        shown=params.optional_text("command") or " ".join(argv),
        cwd=environment.home() if cwd is None else os.path.expanduser(cwd),
        env=env,
        env_source="login_shell" if login else source,
        marker=f"{MARKER}={env[MARKER]}",
        stdin_open=params.flag("stdin_open") or tty,
        tty=tty,
        timeout_s=params.optional_seconds("timeout_s"),
        yield_s=yield_s,
        detach=params.flag("detach"),
        stop_grace_s=min(params.seconds("stop_grace_s", 2.0), _LONGEST_GRACE_S),
        stream=params.flag("stream"),
        max_output_bytes=min(params.integer("max_output_bytes", 30000), _MOST_OUTPUT_BYTES),
        job_id=job_id,
        log_dir=None if log_dir is None else os.path.expanduser(log_dir),
        log_limit=params.integer("log_limit", _LOG_LIMIT_BYTES),
    )


def _job_id(params: Params) -> str:
    given = params.optional_text("job_id")
    if given is None:
        return "job-{}-{}".format(time.strftime("%Y%m%dT%H%M%S", time.gmtime()), os.urandom(4).hex())
    if not given or "/" in given or given.startswith("."):
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


def _emitter(request: Request) -> Callable[[Stream, bytes], None]:
    def emit(stream: Stream, chunk: bytes) -> None:
        request.emit("output", {"stream": stream.name, "offset": stream.total - len(chunk)}, chunk)

    return emit


def _spill_on_overflow(running: Running) -> None:
    """Open logs once more comes than is kept: small commands make no files, and large ones lose nothing."""
    plan, streams = running.plan, running.streams

    def spill() -> None:
        try:
            open_logs(streams, plan.log_dir or "", Budget(plan.log_limit))
        except OSError as error:
            for stream in streams:
                stream.on_overflow = None
                stream.log_error = error.strerror or str(error)

    for stream in streams:
        stream.on_overflow = spill


def _wait(request: Request, running: Running) -> Optional[str]:
    """Serve the pipes until the command ends (None), is interrupted (the reason), is out of time or yields."""
    plan = running.plan
    moments = [None if span is None else running.started + span for span in (plan.timeout_s, plan.yield_s)]
    known = [moment for moment in (*moments, request.deadline) if moment is not None]
    nearest = min(known) if known else None
    while True:
        cause = request.interrupted()
        if cause is not None:
            return "yield" if cause == "cancelled" and plan.detach and request.connection_lost else cause
        now = time.monotonic()
        for moment, reached in zip(moments, ("timeout", "yield")):
            if moment is not None and now >= moment:
                return reached
        if running.serve(None if nearest is None else max(0.0, nearest - now)):
            return None


def _hand_over(running: Running) -> Answer:
    """Make a job of a running command and answer with its output so far."""
    from .jobs_keeper import keep

    kept = [stream.kept() for stream in running.streams]
    result = _result(running, ending(None, None))
    body = _describe_streams(result, running.streams, kept, more_follows=True)
    try:
        keep(running)
    except OSError as error:
        drained = running.drain()
        refusal = from_os_error(error, running.plan.log_dir)
        refusal.message += "; the command was ended, because as a job its output could not be kept"
        refusal.details = {"drained": drained.as_dict()}
        refusal.retry_safe = False
        raise refusal from None
    result["running"] = True
    result["job_id"] = running.plan.job_id
    return result, body


def _finish(request: Request, running: Running, cause: Optional[str]) -> Answer:
    """Drain the family when the end was not a normal one, and make the answer."""
    drained = Drained(0, [])
    if cause is not None:
        drained = running.drain()
    running.read_late_output()
    end = ending(*running.reap())
    recorded = running.plan.yield_s is not None and any(stream.log for stream in running.streams)
    if recorded:
        from .jobs_keeper import record_finished

        record_finished(running, end, cause)
    if cause in ("cancelled", "deadline"):
        raise request.refusal(cause, {"drained": drained.as_dict()})
    result = _result(running, end)
    result["timed_out"] = cause == "timeout"
    result["drained"] = drained.as_dict()
    if recorded:
        result["job_id"] = running.plan.job_id
    elif running.plan.yield_s is not None:
        result["log_dir"] = None
    return result, _describe_streams(result, running.streams, [stream.kept() for stream in running.streams])


def _describe_streams(
    result: Dict[str, Any], streams: List[Stream], kept: List[List[bytes]], *, more_follows: bool = False
) -> bytes:
    for stream, pair in zip(streams, kept):
        result[stream.name] = describe(stream, pair, more_follows=more_follows)
    return b"".join(part for pair in kept for part in pair)


def _result(running: Running, end: Dict[str, Any]) -> Dict[str, Any]:
    return {
        **end,
        "running": False,
        "job_id": None,
        "cancelled": False,
        "timed_out": False,
        "drained": None,
        "duration_ms": round((time.monotonic() - running.started) * 1000, 3),
        "env_source": running.plan.env_source,
        "log_dir": running.plan.log_dir,
    }

"""job_status, job_tail, job_stdin, job_stop, job_list."""

from typing import Any

from vaws_mcp.core.context import Context
from vaws_mcp.core.operation import operation
from vaws_mcp.core.redact import redact_text
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.workspace.jobs.models import (
    JobResult,
    ListRequest,
    ListResult,
    StatusRequest,
    StdinRequest,
    StdinResult,
    StopRequest,
    StopResult,
    TailRequest,
    TailResult,
)

ID_ALIASES = (("id", "job_id"), ("job", "job_id"))
LISTED = ("job_id", "state", "exit_code", "signal", "command", "began_at", "ended_at", "stdout_bytes", "stderr_bytes")


@operation(
    "job_status", title="Look at a job", effect="read", idempotent=True, positionals=("job_id",), aliases=ID_ALIASES
)
async def job_status(request: StatusRequest, ctx: Context) -> JobResult:
    """Report whether a job still runs or how it ended, its living processes and how much it has written."""
    endpoint = await reach(ctx, request)
    answer = await endpoint.call("job.status", {"job_id": request.job_id})
    return _described(JobResult(**_fields(answer.result)))


@operation(
    "job_tail",
    title="Read a job's output",
    effect="read",
    idempotent=True,
    timeout_s=None,
    positionals=("job_id",),
    aliases=(*ID_ALIASES, ("cursor", "offset"), ("limit", "max_bytes")),
)
async def job_tail(request: TailRequest, ctx: Context) -> TailResult:
    """Read a job's stdout or stderr from a byte offset on. Go on at `next_offset`: nothing is skipped or repeated.

    With `wait_ms` the call waits for new output, or for the end of the job.
    """
    endpoint = await reach(ctx, request)
    wait_s = request.wait_ms / 1000
    answer = await endpoint.call(
        "job.tail",
        {
            "job_id": request.job_id,
            "stream": request.stream,
            "offset": request.offset,
            "max_bytes": request.max_bytes,
            "wait_s": wait_s,
        },
        deadline_s=wait_s + 60,
    )
    page = answer.result
    text = answer.body.decode("utf-8", "replace")
    result = TailResult(
        job_id=request.job_id,
        stream=request.stream,
        content=text,
        offset=page["offset"],
        next_offset=page["next_offset"],
        size=page["size"],
        eof=page["eof"],
        state=page["state"],
        exit_code=page["exit_code"],
        signal=page["signal_name"],
        dropped_bytes=page["dropped"],
        replaced_bytes="�" in text and text.encode() != answer.body,
        summary=f"bytes {page['offset']} to {page['next_offset']} of {page['size']}; {_state(page)}",
    )
    if page["eof"] and page["dropped"]:
        result.summary += f"; {page['dropped']} further bytes were dropped: {page['log_error']}"
    if not page["eof"]:
        waiting = "" if page["next_offset"] < page["size"] else " and wait_ms"
        result.hint = f"Call job_tail with offset={page['next_offset']}{waiting} for more."
    return result


@operation(
    "job_stdin",
    title="Write to a job",
    effect="write",
    timeout_s=None,
    positionals=("job_id", "data"),
    aliases=(*ID_ALIASES, ("text", "data"), ("input", "data"), ("chars", "data")),
)
async def job_stdin(request: StdinRequest, ctx: Context) -> StdinResult:
    """Write text to the standard input of a job that was started with `stdin_open` or `tty`, or close it with `eof`.

    What the job does not read within `wait_ms` is returned as `remainder`; send exactly that again.
    """
    endpoint = await reach(ctx, request, command=request.data)
    data = request.data.encode("utf-8", "surrogateescape")
    wait_s = request.wait_ms / 1000
    answer = await endpoint.call(
        "job.stdin",
        {"job_id": request.job_id, "eof": request.eof, "wait_s": wait_s},
        body=data,
        deadline_s=wait_s + 30,
        retry_safe=False,
    )
    written = answer.result["written"]
    result = StdinResult(
        job_id=request.job_id,
        written_bytes=written,
        remainder=data[written:].decode("utf-8", "replace"),
        closed=answer.result["closed"],
        summary=f"{written} of {len(data)} bytes written",
    )
    if result.closed:
        result.summary += "; standard input is closed"
    if result.remainder:
        result.status = "partial"
        result.hint = "The job reads no more." if result.closed else "Call job_stdin again with data=remainder."
    return result


@operation(
    "job_stop",
    title="Stop a job",
    effect="destroy",
    idempotent=True,
    timeout_s=None,
    positionals=("job_id",),
    aliases=ID_ALIASES,
)
async def job_stop(request: StopRequest, ctx: Context) -> StopResult:
    """End a job with everything it has started: SIGINT (SIGHUP on a terminal), then SIGTERM, then SIGKILL.

    Says how many processes were ended and which survived. Stopping a job that has ended is harmless.
    """
    endpoint = await reach(ctx, request)
    params = {
        "job_id": request.job_id,
        "interrupt_s": request.interrupt_ms / 1000,
        "grace_s": request.grace_ms / 1000,
    }
    bound_s = (request.interrupt_ms + request.grace_ms) / 1000 + 30
    answer = await endpoint.call("job.stop", params, deadline_s=bound_s)
    drained = answer.result["drained"]
    result = StopResult(
        **_fields(answer.result),
        drained=drained["signalled"],
        survivors=drained["survivors"],
        state_before=answer.result["state_before"],
    )
    _described(result)
    result.summary += f"; {result.drained} processes were ended"
    if result.state == "running" and not result.processes:
        result.summary += "; the process that keeps it has not noted its end yet"
    if result.survivors:
        result.status, result.outcome = "survivors", "failed"
        result.summary += f", {len(result.survivors)} could not be ended"
        result.hint = "Look at survivors: a process in state D waits for the kernel. Call job_stop again later."
    return result


@operation("job_list", title="List jobs", effect="read", idempotent=True)
async def job_list(request: ListRequest, ctx: Context) -> ListResult:
    """List the jobs of an endpoint, the newest first. Finished ones are kept for seven days, at most 200."""
    endpoint = await reach(ctx, request)
    answer = await endpoint.call("job.list", {"limit": request.limit, "running_only": request.running_only})
    found = answer.result
    jobs = [{key: value for key, value in _fields(job).items() if key in LISTED} for job in found["jobs"]]
    running = sum(job["state"] in ("running", "lost_keeper") for job in jobs)
    return ListResult(
        jobs=jobs,
        left_out=found["left_out"],
        unreadable=found["unreadable"],
        summary=f"{len(jobs) + found['left_out']} jobs, {running} of those shown still run",
    )


def _fields(job: dict[str, Any]) -> dict[str, Any]:
    """Turn a worker's record of a job into the fields of its result."""
    streams: dict[str, Any] = job["streams"]
    return {
        "job_id": job["job_id"],
        "state": job["state"],
        "exit_code": job["exit_code"],
        "signal": job["signal_name"],
        "timed_out": job["cause"] == "timeout",
        "command": redact_text(job["command"]),
        "cwd": job["cwd"],
        "tty": job["tty"],
        "stdin_open": job["stdin_open"] and job["state"] == "running",
        "began_at": job["started_at"],
        "ended_at": job["ended_at"],
        "stop_requested_at": job["stop_requested_at"],
        "stdout_bytes": streams["stdout"]["bytes"],
        "stderr_bytes": streams["stderr"]["bytes"] if "stderr" in streams else 0,
        "dropped_bytes": sum(stream["dropped"] for stream in streams.values()),
        "processes": [{**one, "title": redact_text(one["title"])} for one in job.get("processes", [])],
        "log_dir": job["log_dir"],
    }


def _described(result: JobResult) -> JobResult:
    """Set summary and hint of a job's result."""
    result.summary = f"{result.job_id} {_state({**result.model_dump(), 'signal_name': result.signal})}"
    if result.timed_out:
        result.summary += ", ended by its time limit"
    if result.state == "running":
        result.hint = f"Call job_tail with job_id={result.job_id} and wait_ms to follow it; job_stop ends it."
    elif result.state == "lost_keeper":
        result.hint = f"Nobody reads its output any more: call job_stop with job_id={result.job_id}."
    return result


def _state(job: dict[str, Any]) -> str:
    if job["state"] == "exited":
        if job["signal_name"]:
            return f"was ended by {job['signal_name']}"
        return f"ended with exit code {job['exit_code']}"
    if job["state"] == "lost_keeper":
        return "has lost the process that kept it and still runs"
    return "still runs" if job["state"] == "running" else "ended unseen; its exit code is not known"

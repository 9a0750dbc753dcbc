"""remote_bash."""

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.channel import Answer
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.store.ids import new_id
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.workspace.shell.models import BashRequest, BashResult
from vaws_mcp.workspace.shell.pieces import joined

DEADLINE_GRACE_S = 30.0
STOP_BOUND_S = 10.0


@operation(
    "remote_bash",
    title="Run a shell command",
    effect="write",
    timeout_s=None,
    positionals=("command",),
    aliases=(
        ("cmd", "command"),
        ("workdir", "cwd"),
        ("working_directory", "cwd"),
        ("timeout", "timeout_ms"),
        ("pty", "tty"),
    ),
)
async def remote_bash(request: BashRequest, ctx: Context) -> BashResult:
    """Run a bash command on the endpoint and return how it ended, with stdout and stderr kept apart.

    A non-zero exit code is a result, not an error. A command that runs longer than `yield_time_ms` is answered with
    status `running` and a `job_id`: it goes on, and job_tail, job_status, job_stdin and job_stop continue with it.
    Cancelling this call, or `timeout_ms`, ends the whole process family. Standard input is empty unless `stdin`,
    `stdin_open` or `tty` is given.
    """
    endpoint = await reach(ctx, request, command=request.command)
    job_id = new_id("job")
    try:
        answer = await _run(endpoint, request, job_id)
    except anyio.get_cancelled_exc_class():
        await _end_job(endpoint, job_id)
        raise
    except Failure as failure:
        if failure.code == "outcome_unknown":
            failure.hint = (
                f"The next call connects anew. The command was ended unless it had become job {job_id}: "
                f"job_status job_id={job_id} tells."
            )
            failure.carrying(job_id=job_id)
        raise
    return _result(answer)


async def _run(endpoint: Endpoint, request: BashRequest, job_id: str) -> Answer:
    yield_s = request.yield_time_ms / 1000
    return await endpoint.call(
        "run",
        {
            "command": request.command,
            "cwd": request.cwd or endpoint.config.workdir,
            "env": request.env,
            "env_spec": endpoint.env_spec(refresh=request.refresh_env),
            "login_shell": request.login_shell,
            "stdin_open": request.stdin_open,
            "tty": request.tty,
            "timeout_s": None if request.timeout_ms is None else request.timeout_ms / 1000,
            "yield_s": yield_s,
            "job_id": job_id,
            "detach": request.detach,
            "max_output_bytes": request.max_output_bytes,
            "log_limit": request.log_limit_bytes,
        },
        body=(request.stdin or "").encode("utf-8", "surrogateescape"),
        deadline_s=yield_s + DEADLINE_GRACE_S,
        retry_safe=False,
    )


async def _end_job(endpoint: Endpoint, job_id: str) -> None:
    """End the command also when it became a job at the very moment its caller gave up."""
    if not endpoint.usable:
        return
    with anyio.CancelScope(shield=True), anyio.move_on_after(STOP_BOUND_S):
        try:
            await endpoint.call("job.stop", {"job_id": job_id, "if_exists": True}, deadline_s=STOP_BOUND_S)
        except Failure:
            return  # the caller is gone; job_list names what is left


def _result(answer: Answer) -> BashResult:
    result = answer.result
    out = result["stdout"]
    err = result.get("stderr")
    split = out["kept_head"] + out["kept_tail"]
    streams = [out, err] if err else [out]
    bash = BashResult(
        exit_code=result["exit_code"],
        signal=result["signal_name"],
        stdout=joined(answer.body[:split], out),
        stderr=joined(answer.body[split:], err) if err else "",
        stdout_bytes=out["bytes"],
        stderr_bytes=err["bytes"] if err else 0,
        truncated=any(stream["truncated"] for stream in streams),
        timed_out=result["timed_out"],
        drained=result["drained"] if result["timed_out"] else None,
        env_source=result.get("env_source"),
        job_id=result["job_id"],
        log_dir=result["log_dir"],
        dropped_bytes=sum(stream["dropped"] for stream in streams),
    )
    if result["running"]:
        bash.stdout_cursor = out["cursor"]
        bash.stderr_cursor = err["cursor"] if err else None
    _describe(bash, running=result["running"])
    log_error = next((stream["log_error"] for stream in streams if stream["log_error"]), None)
    if log_error:
        bash.summary += f"; the logs are incomplete: {log_error}"
    return bash


def _describe(bash: BashResult, *, running: bool) -> None:
    """Set status, outcome, summary and hint."""
    if running:
        bash.status, bash.summary = "running", f"still running as {bash.job_id}"
        bash.hint = (
            f"Call job_tail with job_id={bash.job_id}, offset={bash.stdout_cursor} and wait_ms to follow its output; "
            "job_stop ends it."
        )
    elif bash.timed_out:
        bash.status, bash.outcome = "timeout", "timeout"
        bash.summary = "the command reached its time limit and was ended with everything it started"
    elif bash.signal:
        bash.status, bash.summary = "signalled", f"ended by {bash.signal}"
    else:
        bash.status = "ok" if bash.exit_code == 0 else "non_zero_exit"
        bash.summary = f"exit code {bash.exit_code}"
    if not running and bash.truncated and bash.job_id:
        whole = (
            "whole output is" if not bash.dropped_bytes else f"output without its last {bash.dropped_bytes} bytes is"
        )
        bash.hint = f"The {whole} kept: call job_tail with job_id={bash.job_id}, stream and offset."

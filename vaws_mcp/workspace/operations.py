"""remote_bash, remote_read, remote_write, remote_probe."""

from typing import Any

from vaws_mcp.core.context import Context
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.workspace.models import (
    BashRequest,
    BashResult,
    ProbeRequest,
    ProbeResult,
    ReadRequest,
    ReadResult,
    WriteRequest,
    WriteResult,
)

FILE_ALIASES = (("path", "file_path"), ("filename", "file_path"))


def env_spec(endpoint: Endpoint, *, refresh: bool = False) -> dict[str, Any]:
    """Say to the worker which environment commands of this endpoint start with."""
    config = endpoint.config
    return {"env_files": list(config.env_files), "venv": config.venv, "refresh": refresh}


@operation(
    "remote_bash",
    title="Run a shell command",
    effect="write",
    timeout_s=None,
    positionals=("command",),
    aliases=(("cmd", "command"), ("workdir", "cwd"), ("working_directory", "cwd"), ("timeout", "timeout_ms")),
)
async def remote_bash(request: BashRequest, ctx: Context) -> BashResult:
    """Run a bash command on the endpoint and return how it ended, with stdout and stderr kept apart.

    A non-zero exit code is a result, not an error. When the time limit is reached, or this call is cancelled, the whole
    process family is ended. Standard input is empty unless `stdin` is given.
    """
    endpoint = await reach(ctx, request)
    answer = await endpoint.call(
        "run",
        {
            "command": request.command,
            "cwd": request.cwd or endpoint.config.workdir,
            "env": request.env,
            "env_spec": env_spec(endpoint, refresh=request.refresh_env),
            "login_shell": request.login_shell,
            "timeout_s": request.timeout_ms / 1000,
            "max_output_bytes": request.max_output_bytes,
        },
        body=(request.stdin or "").encode(),
        deadline_s=request.timeout_ms / 1000 + 30,
        retry_safe=False,
    )
    return _bash_result(answer.result, answer.body)


def _bash_result(result: dict[str, Any], body: bytes) -> BashResult:
    out, err = result["stdout"], result["stderr"]
    split = out["kept_head"] + out["kept_tail"]
    answer = BashResult(
        exit_code=result["exit_code"],
        signal=result["signal_name"],
        stdout=_joined(body[:split], out),
        stderr=_joined(body[split:], err),
        stdout_bytes=out["bytes"],
        stderr_bytes=err["bytes"],
        truncated=out["truncated"] or err["truncated"],
        timed_out=result["timed_out"],
        drained=result["drained"] if result["timed_out"] else None,
        env_source=result.get("env_source"),
    )
    if answer.timed_out:
        answer.status, answer.outcome = "timeout", "timeout"
        answer.summary = "the command reached its time limit and was ended with everything it started"
    elif answer.signal:
        answer.status, answer.summary = "signalled", f"ended by {answer.signal}"
    else:
        answer.status = "ok" if answer.exit_code == 0 else "non_zero_exit"
        answer.summary = f"exit code {answer.exit_code}"
    return answer


def _joined(kept: bytes, stream: dict[str, Any]) -> str:
    """Return head and tail as text, with a line that says how much is missing between them."""
    if not stream["truncated"]:
        return kept.decode("utf-8", "replace")
    head, tail = kept[: stream["kept_head"]], kept[stream["kept_head"] :]
    missing = stream["bytes"] - len(kept)
    return f"{head.decode('utf-8', 'replace')}\n[… {missing} bytes left out …]\n{tail.decode('utf-8', 'replace')}"


@operation(
    "remote_read",
    title="Read a file",
    effect="read",
    idempotent=True,
    positionals=("file_path",),
    aliases=FILE_ALIASES,
)
async def remote_read(request: ReadRequest, ctx: Context) -> ReadResult:
    """Read lines of a text file on the endpoint. A negative offset counts from the end. Binary files are refused.

    What was left out is said: `next_offset` is where to go on.
    """
    endpoint = await reach(ctx, request)
    answer = await endpoint.call(
        "read",
        {
            "path": request.file_path,
            "offset": request.offset,
            "limit": request.limit,
            "max_bytes": request.max_bytes,
        },
    )
    found = answer.result
    text = answer.body.decode("utf-8", "replace")
    result = ReadResult(
        path=found["path"],
        content=text,
        first_line=found["first_line"],
        lines=found["lines"],
        total_lines=found["total_lines"],
        next_offset=found["next_offset"],
        truncated_lines=found["truncated_lines"],
        size=found["size"],
        sha256=found["sha256"],
        mtime=found["mtime_ns"] / 1e9,
        replaced_bytes="�" in text and "�".encode() not in answer.body,
        summary=f"{found['lines']} of {found['total_lines'] if found['total_lines'] is not None else '?'} lines",
    )
    if result.next_offset is not None:
        result.hint = f"Call remote_read with offset={result.next_offset} for more."
    return result


@operation(
    "remote_write",
    title="Write a file",
    effect="write",
    idempotent=True,
    positionals=("file_path",),
    aliases=(*FILE_ALIASES, ("text", "content"), ("contents", "content")),
)
async def remote_write(request: WriteRequest, ctx: Context) -> WriteResult:
    """Replace a file on the endpoint, or create it, atomically. An existing file keeps its mode and owner."""
    endpoint = await reach(ctx, request)
    answer = await endpoint.call(
        "write",
        {
            "path": request.file_path,
            "mode": int(request.mode, 8) if request.mode else None,
            "create_dirs": request.create_dirs,
            "expected_sha256": request.expected_sha256,
        },
        body=request.content.encode("utf-8", "surrogateescape"),
        retry_safe=True,
    )
    found = answer.result
    return WriteResult(
        path=found["path"],
        bytes=found["bytes"],
        sha256=found["sha256"],
        created=found["created"],
        previous_sha256=found.get("previous_sha256"),
        summary=f"{'created' if found['created'] else 'replaced'} {found['path']} ({found['bytes']} bytes)",
    )


@operation("remote_probe", title="Look at an endpoint", effect="read", idempotent=True)
async def remote_probe(request: ProbeRequest, ctx: Context) -> ProbeResult:
    """Report facts about an endpoint: system, Python, tools, disk, NPU devices, locale, proxies, connection timing."""
    endpoint = await reach(ctx, request)
    answer = await endpoint.call("probe")
    return ProbeResult(
        endpoint=endpoint.config.address,
        worker=endpoint.hello,
        timing_ms=endpoint.timing_ms,
        facts=answer.result,
        summary=f"{endpoint.config.address} answers; worker on Python {endpoint.hello.get('python')}",
    )

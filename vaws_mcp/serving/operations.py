"""serve_status, serve_stop, serve_logs (serve_start and explain_failure have modules of their own)."""

from typing import Any

from vaws_mcp.coordinator.control import observed
from vaws_mcp.coordinator.executions import FINAL_STATES, observe
from vaws_mcp.coordinator.failures import no_execution
from vaws_mcp.coordinator.queueing import queue_sentence
from vaws_mcp.coordinator.records import ExecutionRecord, services
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.operation import operation
from vaws_mcp.core.redact import redact_text
from vaws_mcp.core.sanitize import one_line, plain_text
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.registry import present
from vaws_mcp.serving.failures import how_it_ended
from vaws_mcp.serving.idle import still_wanted
from vaws_mcp.serving.logs import LogFollower, diagnose, page_of
from vaws_mcp.serving.look import engine_processes, look_at
from vaws_mcp.serving.models import (
    ServeLogsRequest,
    ServeLogsResult,
    ServeStatusRequest,
    ServeStatusResult,
    ServeStopResult,
    ServiceRequest,
)
from vaws_mcp.serving.records import service_record
from vaws_mcp.serving.stop import stop_service
from vaws_mcp.serving.target import Target
from vaws_mcp.serving.view import service_fields
from vaws_mcp.taskstore.tasks import Task, require_task

NAME_ALIASES = (("name", "service"),)


async def endpoint_of_service(ctx: Context, record: ExecutionRecord) -> Endpoint:
    """Return the endpoint that a service was started on.

    Raises: Failure of connecting.
    """
    return await connected(ctx, present(ctx.state_dir, record.endpoint))


@operation(
    "serve_status",
    title="Look at a vLLM service",
    effect="read",
    idempotent=True,
    aliases=NAME_ALIASES,
)
async def serve_status(request: ServeStatusRequest, ctx: Context) -> ServeStatusResult:
    """Say whether a service is ready: its processes, /health, the model list, and one token within `token_timeout`.

    A server whose engine is gone may still answer /health: then it is `degraded`, and `missing` says what is not there.
    For one that failed `diagnosis` names the cause.
    """
    task = require_task(ctx, request.context_file, "serve_status")
    record = service_record(task, request.service)
    if record is None:
        return ServeStatusResult(
            service=request.service,
            state="absent",
            status="absent",
            services=services(task.directory),
            summary=f"there is no service {request.service} in task {task.task_id}",
            hint="serve_start starts one.",
        )
    endpoint = await endpoint_of_service(ctx, record)
    status = record.status if record.ended else await observed(task, endpoint, record)
    result = ServeStatusResult(
        **service_fields(task, record, status),
        supervised=None if record.ended else status.get("supervised"),
        exit=status.get("exit"),
        services=services(task.directory),
    )
    if status["state"] in FINAL_STATES:
        await _ended(endpoint, record, status, result)
    elif status["state"] == "running":
        await still_wanted(endpoint, record)
        await _running(endpoint, record, status, request.token_timeout, result)
    else:
        result.missing = queue_sentence(status) or f"its execution is {status['state']}"
        result.summary = f"service {record.name} is {result.state}: {result.missing}"
        result.hint = "Call serve_start again with the same arguments to wait for it; serve_stop gives up."
        if result.state == "stopping":
            result.hint = "serve_stop waits for its end."
    result.status = result.state
    return result


async def _running(
    endpoint: Endpoint,
    record: ExecutionRecord,
    status: dict[str, Any],
    token_s: float,
    result: ServeStatusResult,
) -> None:
    target = Target.recorded(record)
    if target is None:
        raise no_execution(f"vLLM service {record.name}: {record.execution_id} is another kind of execution")
    found = await look_at(endpoint, status, target, token_s)
    was_ready = bool(result.phases)
    result.health, result.models, result.first_token_s = found.health, found.models, found.token_s
    result.processes, result.engine_processes = len(status.get("family") or []), engine_processes(status)
    if found.missing is None and (found.token_s is not None or was_ready):
        result.state = "ready"
    else:
        result.state = "degraded" if was_ready or (found.health is not None and found.asked_token) else "starting"
        result.missing = found.missing or "nobody asked for a first token yet"
    if not result.phases:
        follower = LogFollower(endpoint, record)
        await follower.look(None)
        result.phases, result.took = follower.timeline.phases(), dict(follower.timeline.took)
    _describe_running(record, result)


def _describe_running(record: ExecutionRecord, result: ServeStatusResult) -> None:
    result.summary = f"service {record.name} is {result.state} on {result.host}:{result.port}"
    if result.missing:
        result.summary += f": {result.missing}"
    if result.state == "degraded":
        if not result.engine_processes:
            result.summary += "; no engine or worker process lives"
        result.hint = "See serve_logs; serve_start with restart=true replaces it, serve_stop ends it."
    elif result.state == "starting":
        result.hint = "Call serve_start again with the same arguments to wait for it; serve_logs shows its log."


async def _ended(
    endpoint: Endpoint, record: ExecutionRecord, status: dict[str, Any], result: ServeStatusResult
) -> None:
    """Say how a service ended; for one that nobody stopped, also why."""
    end = status.get("exit") or {}
    result.summary = f"service {record.name} is {status['state']} ({how_it_ended(status)})"
    result.hint = "serve_start starts it again."
    for said in (status.get("stop_reason") if end.get("reason") == "timeout" else None, status.get("note")):
        if said:
            result.summary += f": {one_line(str(said))}"
    if end.get("reason") in ("cancelled", "timeout") or status["state"] == "never_started":
        return
    try:
        diagnosis = await diagnose(endpoint, record)
    except Failure as failure:
        if failure.layer == "transport":
            raise
        return  # its logs are gone
    result.diagnosis = {**diagnosis.fields(), "hint": diagnosis.hint}
    if diagnosis.line:
        result.summary += f": {diagnosis.line}"
    if diagnosis.failure:
        result.hint = diagnosis.hint


@operation(
    "serve_stop",
    title="Stop a vLLM service",
    effect="destroy",
    idempotent=True,
    timeout_s=None,
    aliases=NAME_ALIASES,
)
async def serve_stop(request: ServiceRequest, ctx: Context) -> ServeStopResult:
    """Stop a service completely: SIGINT, SIGTERM, SIGKILL with bounded waits, then all its descendants.

    Success means that every process is gone, the port is closed and the devices are free. Stopping one that does not
    run is harmless.
    """
    task = require_task(ctx, request.context_file, "serve_stop")
    record = service_record(task, request.service)
    if record is None:
        return ServeStopResult(
            service=request.service,
            state="absent",
            resources_released=True,
            was_running=False,
            summary=f"there is no service {request.service} in task {task.task_id}",
        )
    was_running = not record.ended
    if was_running:
        await stop_service(ctx, task, await endpoint_of_service(ctx, record), record)
    done = f"was {'' if was_running else 'already '}stopped, everything it held is free"
    return ServeStopResult(
        service=request.service,
        execution_id=record.execution_id,
        state=record.status["state"],
        resources_released=bool(record.status.get("resources_released")),
        was_running=was_running,
        exit=record.status.get("exit"),
        summary=f"service {request.service} ({record.execution_id}) {done}",
    )


@operation(
    "serve_logs",
    title="Read a service's logs",
    effect="read",
    idempotent=True,
    aliases=NAME_ALIASES,
)
async def serve_logs(request: ServeLogsRequest, ctx: Context) -> ServeLogsResult:
    """Read stdout and stderr of a service, also after it has ended; go on at `cursor`.

    To find out why it failed use explain_failure, which reads them whole.
    """
    task = require_task(ctx, request.context_file, "serve_logs")
    record = _required(task, request.service)
    endpoint = await endpoint_of_service(ctx, record)
    if record.status.get("state") == "running":
        await still_wanted(endpoint, record)
    offsets: list[int | None] = [None, None]
    if request.cursor is not None:
        offsets = [int(part) for part in request.cursor.split(".")]
    out = await page_of(endpoint, record, "stdout", offsets[0], request.max_bytes)
    err = await page_of(endpoint, record, "stderr", offsets[1], request.max_bytes)
    state = record.status.get("state", "unknown") if record.ended else (await observe(endpoint, record))["state"]
    more = out.more or err.more
    result = ServeLogsResult(
        service=request.service,
        execution_id=record.execution_id,
        state=state,
        stdout=redact_text(plain_text(out.text)),
        stderr=redact_text(plain_text(err.text)),
        cursor=f"{out.following}.{err.following}",
        more=more,
        eof=out.eof and err.eof,
        summary=f"{len(out.text)} characters of stdout and {len(err.text)} of stderr; its execution is {state}",
    )
    if not result.eof:
        result.hint = f"Call serve_logs with cursor={result.cursor} for {'more' if more else 'what comes next'}."
    return result


def _required(task: Task, name: str) -> ExecutionRecord:
    record = service_record(task, name)
    if record is None:
        raise no_execution(f"service {name} of task {task.task_id}")
    return record

"""vaws_execution: looking at executions, reading their output, waiting for them and ending them."""

from typing import Any

from vaws_mcp.coordinator.executions import (
    FINAL_STATES,
    STOP_WAIT_S,
    ask_stop,
    gone,
    is_young,
    observe,
    stop_incomplete,
    take_status,
    when_submitted,
)
from vaws_mcp.coordinator.failures import foreign_execution, no_execution
from vaws_mcp.coordinator.models import ExecutionListResult, ExecutionResult, Row, TailResult, VawsExecutionRequest
from vaws_mcp.coordinator.ready import wait_for
from vaws_mcp.coordinator.records import ExecutionRecord, executions, find_execution, services
from vaws_mcp.coordinator.run import add_output, judged
from vaws_mcp.coordinator.view import describe, row
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, NeedsInput, Refused
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint, connected, renewed
from vaws_mcp.endpoint.registry import present
from vaws_mcp.taskstore.tasks import Task, find_task, tasks_dir

ID_ALIASES = (("id", "execution_id"), ("execution", "execution_id"))


def check_execution(request: VawsExecutionRequest) -> None:
    """Refuse a request that names no execution or two.

    Raises: Refused.
    """
    if request.execution_id and request.service:
        raise Refused("execution_ambiguous", "execution_id and service were both given", hint="Give one of them.")
    if request.action != "status" and not request.execution_id and not request.service:
        raise Refused(
            "execution_missing",
            f"action {request.action} needs execution_id or service",
            hint="vaws_execution without arguments lists the executions of the task.",
        )


@operation(
    "vaws_execution",
    title="Follow or end an execution",
    effect="destroy",
    idempotent=True,
    timeout_s=None,
    positionals=("execution_id",),
    aliases=(*ID_ALIASES, ("wait_until", "until"), ("cursor", "offset")),
    check=check_execution,
)
async def vaws_execution(request: VawsExecutionRequest, ctx: Context) -> Row:
    """Look at an execution, read its output, wait for it, or end it, from any process and at any time.

    `status` without an id lists the task's executions. `tail` goes on at `next_offset`. `wait` answers at the latest
    after `wait_s`; call it again. `stop` ends the whole process family and says whether all resources are released;
    stopping twice is harmless. Only its own task may stop an execution.
    """
    if request.action != "stop":
        ctx.effect = "read"  # looking at an execution is also allowed where nothing may be changed
    task = find_task(request.context_file)
    if not request.execution_id and not request.service:
        return await _listed(ctx, _needed(task))
    owner, record = _found(ctx, task, request)
    if request.action == "stop":
        return await stop_execution(ctx, owner, record, "vaws_execution", request.wait_s)
    try:
        return await _looked(ctx, owner, record, request)
    except Failure as failure:
        seen = record.status.get("state")
        raise failure.carrying(execution_id=record.execution_id, service=record.service, last_state=seen) from None


async def _looked(ctx: Context, owner: Task, record: ExecutionRecord, request: VawsExecutionRequest) -> Row:
    endpoint = await _endpoint_of(ctx, record)
    if request.action == "tail":
        return await _tail(endpoint, record, request)
    if request.action == "wait":
        return await _wait(ctx, owner, endpoint, record, request)
    return describe(ctx, owner, record, await observed(owner, endpoint, record))


def _needed(task: Task | None) -> Task:
    if task is None:
        raise NeedsInput(
            "task_missing",
            "no context_file and no execution_id was given",
            hint="Pass the context_file of the task whose executions you mean, or an execution_id.",
        )
    return task


def _found(ctx: Context, task: Task | None, request: VawsExecutionRequest) -> tuple[Task, ExecutionRecord]:
    """Return the execution of a request and the task that it belongs to.

    Raises: NeedsInput without such a record. Refused when another task asks to stop it.
    """
    execution_id = request.execution_id
    if execution_id is None:
        owner = _needed(task)
        execution_id = services(owner.directory).get(request.service or "")
        record = find_execution(owner.directory, execution_id) if execution_id else _last_of(owner, request.service)
        if record is None:
            raise no_execution(f"service {request.service!r} in task {owner.task_id}")
        return owner, record
    if task is not None and (record := find_execution(task.directory, execution_id)) is not None:
        return task, record
    for path in tasks_dir(ctx.state_dir).glob(f"*/executions/{execution_id}/record.json"):
        owner = _needed(find_task(str(path.parents[2] / "context.json")))
        if request.action == "stop":
            raise foreign_execution(execution_id, owner.task_id, _needed(task).task_id)
        record = find_execution(owner.directory, execution_id)
        if record is not None:
            return owner, record
    raise no_execution(f"execution {execution_id}")


def _last_of(task: Task, service: str | None) -> ExecutionRecord | None:
    """Return the last execution that had this name; a name is free again when its execution has ended."""
    return next((record for record in reversed(list(executions(task.directory))) if record.service == service), None)


async def _endpoint_of(ctx: Context, record: ExecutionRecord) -> Endpoint:
    return await connected(ctx, present(ctx.state_dir, record.endpoint))


async def observed(task: Task, endpoint: Endpoint, record: ExecutionRecord) -> dict[str, Any]:
    """Return the status of an execution as it is now, and keep it; one that its endpoint does not have says so.

    Raises: Failure of the endpoint.
    """
    try:
        return take_status(task, record, await when_submitted(record, lambda: observe(endpoint, record)))
    except Failure as failure:
        if failure.code != "not_found":
            raise
        return gone(task, endpoint, record)


async def stop_execution(
    ctx: Context, task: Task, record: ExecutionRecord, reason: str, wait_s: float | None
) -> ExecutionResult:
    """End an execution and say what is left of it. Units: ``wait_s`` seconds, at most 60.

    Raises: CleanupFailed when it has ended and something of it survives.
    """
    asked = wait_s if wait_s is not None else ctx.wait_s
    bound_s = STOP_WAIT_S if asked is None else min(asked, STOP_WAIT_S)
    status = record.status
    if not record.ended:
        endpoint = await _endpoint_of(ctx, record)
        await ctx.progress("stop", f"stopping {record.name}")
        status = await ask_stop(task, endpoint, record, reason, bound_s)
    result = describe(ctx, task, record, status)
    if status["state"] in FINAL_STATES and not record.ended:
        raise stop_incomplete(record, status).carrying(**_facts(result))
    return result


def _facts(result: ExecutionResult) -> dict[str, Any]:
    kept = ("execution_id", "task_id", "service", "state", "resources_released", "survivors", "processes", "ports")
    return {name: getattr(result, name) for name in kept}


async def _wait(
    ctx: Context, task: Task, endpoint: Endpoint, record: ExecutionRecord, request: VawsExecutionRequest
) -> ExecutionResult:
    wait_s = request.wait_s if request.wait_s is not None else ctx.wait_s
    try:
        status = await when_submitted(record, lambda: wait_for(ctx, endpoint, record, request.until, wait_s))
    except Failure as failure:
        if failure.code != "not_found":
            raise
        status = gone(task, endpoint, record)
    status = take_status(task, record, status)
    result = describe(ctx, task, record, status)
    over = status["state"] in FINAL_STATES
    if over and status["state"] == "exited":
        await add_output(await renewed(ctx, endpoint), record, result)
    reached = bool(status.get("reached"))
    if not reached and not over:
        named = f"execution_id={record.execution_id}"
        result.summary += f"; not {request.until} yet"
        result.hint = f"Call vaws_execution with {named}, action=wait and until={request.until} again."
    return judged(result, request.until, reached=reached)


async def _tail(endpoint: Endpoint, record: ExecutionRecord, request: VawsExecutionRequest) -> TailResult:
    params = {
        "execution_id": record.execution_id,
        "stream": request.stream,
        "offset": request.offset,
        "max_bytes": request.max_bytes,
    }
    answer = await endpoint.call("execution.tail", params, deadline_s=30.0)
    page = answer.result
    result = TailResult(
        execution_id=record.execution_id,
        task_id=record.task_id,
        stream=request.stream,
        content=answer.body.decode("utf-8", "replace"),
        offset=page["offset"],
        next_offset=page["next_offset"],
        size=page["size"],
        eof=page["eof"],
        summary=f"{request.stream}: bytes {page['offset']} to {page['next_offset']} of {page['size']}",
    )
    if not page["eof"]:
        result.hint = f"Call vaws_execution again with action=tail and offset={page['next_offset']} for what follows."
    return result


async def _listed(ctx: Context, task: Task) -> ExecutionListResult:
    """List a task's executions; each endpoint is asked once for all that have not ended."""
    records = list(executions(task.directory))
    unreachable = await _refresh(ctx, task, [record for record in records if not record.ended])
    rows: list[dict[str, Any]] = []
    for record in reversed(records):
        status = record.status if "state" in record.status else {**record.status, "state": "unknown"}
        rows.append(row(describe(ctx, task, record, status)))
    live = sum(not record.ended for record in records)
    return ExecutionListResult(
        task_id=task.task_id,
        executions=rows,
        unreachable=unreachable,
        summary=f"{len(rows)} executions, {live} of them have not ended",
    )


async def _refresh(ctx: Context, task: Task, live: list[ExecutionRecord]) -> list[str]:
    """Bring the records up to date; return sentences about the endpoints that did not answer."""
    unreachable: list[str] = []
    places: dict[str, list[ExecutionRecord]] = {}
    for record in live:
        places.setdefault(record.endpoint.model_dump_json(), []).append(record)
    for group in places.values():
        try:
            endpoint = await _endpoint_of(ctx, group[0])
            answer = await endpoint.call("execution.list", {"task_id": task.task_id}, deadline_s=30.0)
        except Failure as failure:
            unreachable.append(f"{group[0].endpoint.address}: {failure.message}")
            continue
        unreadable = set(answer.result["unreadable"])
        found = {status["execution_id"]: status for status in answer.result["executions"]}
        for record in group:
            if record.execution_id in found:
                take_status(task, record, found[record.execution_id])
            elif record.execution_id not in unreadable and not is_young(record):
                gone(task, endpoint, record)
    return unreachable

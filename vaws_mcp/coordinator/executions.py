"""Submitting, observing and stopping one execution."""

from dataclasses import dataclass, field
from typing import Any

import anyio

from vaws_mcp.coordinator.records import ExecutionRecord, executions, name_service, save_execution
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed, Failure
from vaws_mcp.core.redact import redact
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.registry import present
from vaws_mcp.store.events import append_event
from vaws_mcp.store.ids import new_id
from vaws_mcp.taskstore.tasks import Task, timestamp

SPEC_SCHEMA = 1
STOP_STEPS: dict[str, float] = {"int_s": 15.0, "term_s": 10.0, "kill_s": 10.0}
STOP_WAIT_S = 60.0


@dataclass(frozen=True)
class Wanted:
    """What an execution should be. ``devices`` is None for CPU work, else logic ids."""

    command: list[str]
    service: str | None = None
    cwd: str | None = None
    env: dict[str, str | None] = field(default_factory=dict[str, str | None])
    env_spec: dict[str, Any] = field(default_factory=dict[str, Any])
    ports: list[int] = field(default_factory=list[int])
    devices: list[str] | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])


async def submit(task: Task, endpoint: Endpoint, wanted: Wanted) -> ExecutionRecord:
    """Record an execution locally, then submit it; its supervisor on the endpoint does the rest.

    A cancellation waits until the submission is through, so that the caller always has the record to stop it by.

    Raises: Failure of the endpoint. After a lost connection the record stays, so that the execution can be found.
    """
    record = ExecutionRecord(
        execution_id=new_id("execution"),
        task_id=task.task_id,
        service=wanted.service,
        endpoint=endpoint.config,
        command=redact(wanted.command),
        created_at=timestamp(),
    )
    save_execution(task.directory, record)
    if wanted.service:
        name_service(task.directory, wanted.service, record.execution_id)
    spec = _spec(task, record.execution_id, wanted)
    # Cancelled halfway, nobody would know that there is something to stop.
    with anyio.CancelScope(shield=True):
        answer = await endpoint.call("execution.submit", {"spec": spec}, deadline_s=30.0, retry_safe=True)
        record.status = answer.result["status"]
        save_execution(task.directory, record)
        note(task, record, "submitted")
    return record


def _spec(task: Task, execution_id: str, wanted: Wanted) -> dict[str, Any]:
    return {
        "schema": SPEC_SCHEMA,
        "execution_id": execution_id,
        "task_id": task.task_id,
        "service": wanted.service,
        "argv": wanted.command,
        "cwd": wanted.cwd,
        "env": wanted.env,
        "env_spec": wanted.env_spec,
        "ports": wanted.ports,
        "devices": wanted.devices if wanted.devices is not None else "none",
        "stop": STOP_STEPS,
        "labels": wanted.labels,
    }


def note(task: Task, record: ExecutionRecord, event: str) -> None:
    """Append an event to the execution's history."""
    path = task.directory / "executions" / record.execution_id / "events.jsonl"
    append_event(path, {"at": timestamp(), "event": event, "state": record.status.get("state")})


async def observe(endpoint: Endpoint, record: ExecutionRecord) -> dict[str, Any]:
    """Return the execution's status as its endpoint sees it now."""
    answer = await endpoint.call("execution.status", {"execution_id": record.execution_id}, deadline_s=30.0)
    record.status = answer.result
    return answer.result


async def log_tail(endpoint: Endpoint, record: ExecutionRecord, stream: str, max_bytes: int = 32_768) -> str:
    """Return the end of one of the execution's logs as text."""
    params = {"execution_id": record.execution_id, "stream": stream, "offset": None, "max_bytes": max_bytes}
    answer = await endpoint.call("execution.tail", params, deadline_s=30.0)
    return answer.body.decode("utf-8", "replace")


async def stop(task: Task, endpoint: Endpoint, record: ExecutionRecord, reason: str) -> dict[str, Any]:
    """Stop an execution completely and record it as ended.

    Raises: CleanupFailed when a process survives or its resources are not released in time.
    """
    params = {"execution_id": record.execution_id, "reason": reason, "wait_s": STOP_WAIT_S}
    try:
        answer = await endpoint.call("execution.stop", params, deadline_s=STOP_WAIT_S + 20.0)
    except Failure as failure:
        if failure.code != "not_found":
            raise
        return _ended(task, record, {"state": "never_started", "resources_released": True})
    status = answer.result
    if status["state"] in ("exited", "lost") and status["resources_released"]:
        return _ended(task, record, status)
    record.status = status
    save_execution(task.directory, record)
    survivors = ", ".join(str(item) for item in status.get("survivors") or status.get("family") or []) or "unknown"
    raise CleanupFailed(
        "stop_incomplete",
        f"execution {record.execution_id} on {endpoint.config.address} is {status['state']}, "
        f"and its resources are not released; survivors: {survivors}",
        layer="remote_workload",
        hint="Look at these processes on the endpoint; task_finish tries again.",
        retry_safe=True,
        phase="stop",
    )


def _ended(task: Task, record: ExecutionRecord, status: dict[str, Any]) -> dict[str, Any]:
    record.status, record.ended = status, True
    save_execution(task.directory, record)
    if record.service:
        name_service(task.directory, record.service, None)
    note(task, record, "ended")
    return status


async def stop_all(ctx: Context, task: Task) -> tuple[list[str], list[str]]:
    """Stop every execution of a task that is not known to have ended.

    Returns: (ids that ended now, sentences about those that could not be stopped).
    """
    ended: list[str] = []
    failed: list[str] = []
    for record in executions(task.directory):
        if record.ended:
            continue
        await ctx.progress("stop", f"stopping {record.service or record.execution_id}")
        try:
            endpoint = await connected(ctx, present(ctx.state_dir, record.endpoint))
            await stop(task, endpoint, record, "task_finish")
            ended.append(record.execution_id)
        except Failure as failure:
            failed.append(f"{record.execution_id}: {failure.message}")
    return ended, failed

"""Submitting, observing, waiting for and stopping one execution."""

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import anyio

from vaws_mcp.coordinator.queueing import queue_sentence
from vaws_mcp.coordinator.records import ExecutionRecord, free_service, name_service, save_execution
from vaws_mcp.coordinator.wanted import DeviceRequest, Hold, TreeUse, Wanted, identity_digest, identity_parts, spec_of
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed, Failure
from vaws_mcp.core.redact import redact
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.store.events import append_event
from vaws_mcp.store.ids import new_id
from vaws_mcp.taskstore.tasks import Task, timestamp

__all__ = [
    "DeviceRequest",
    "Hold",
    "TreeUse",
    "Wanted",
    "ask_stop",
    "gone",
    "is_young",
    "log_tail",
    "mark_never_started",
    "new_record",
    "note",
    "observe",
    "stop",
    "stop_incomplete",
    "submit",
    "take_status",
    "touch",
    "wait_until",
    "when_submitted",
]

T = TypeVar("T")

STOP_WAIT_S = 60.0
SUBMIT_DEADLINE_S = 30.0
SUBMISSION_BOUND_S = 15.0
FIRST_LOOK_S = 0.05
SLOWEST_LOOK_S = 0.5
FIRST_WAIT_STEP_S = 0.5
WAIT_STEP_S = 5.0
RECONNECTS = 3
FINAL_STATES = ("exited", "lost", "never_started")

Until = Literal["running", "exited", "released"]


def new_record(task: Task, endpoint: Endpoint, wanted: Wanted, asked: Wanted | None = None) -> ExecutionRecord:
    """Return the record of an execution that is about to be submitted; nothing is written yet.

    ``asked`` is what the caller asked for, when ``wanted`` has been completed since: later requests are compared with
    that.
    """
    parts = identity_parts(endpoint.config, asked or wanted)
    return ExecutionRecord(
        execution_id=new_id("execution"),
        task_id=task.task_id,
        kind=wanted.kind,
        service=wanted.service,
        endpoint=endpoint.config,
        command=redact(wanted.command),
        labels=wanted.labels,
        ports=wanted.ports,
        receipt=wanted.receipt,
        spec_parts=parts,
        spec_digest=identity_digest(parts),
        created_at=timestamp(),
    )


async def submit(
    task: Task, endpoint: Endpoint, wanted: Wanted, record: ExecutionRecord | None = None
) -> ExecutionRecord:
    """Record an execution locally, then submit it; its supervisor on the endpoint does the rest.

    With a ``record`` that was made before, this submits that execution, which is harmless when it is there already.
    A cancellation waits until the submission is through, so that the caller always has the record to stop it by.

    Raises: Failure of the endpoint. After a lost connection the record stays, so that the execution can be found.
    """
    if record is None:
        record = new_record(task, endpoint, wanted)
        save_execution(task.directory, record)
        if wanted.service:
            name_service(task.directory, wanted.service, record.execution_id)
    spec = spec_of(task.task_id, record.execution_id, wanted, endpoint.config.lease_dir)
    # Cancelled halfway, nobody would know that there is something to stop.
    with anyio.CancelScope(shield=True):
        try:
            answer = await endpoint.call(
                "execution.submit", {"spec": spec}, deadline_s=SUBMIT_DEADLINE_S, retry_safe=True
            )
        except Failure as failure:
            if failure.layer == "caller" and failure.code != "spec_conflict":
                mark_never_started(task, record, failure.message)
            raise failure.carrying(execution_id=record.execution_id) from None
        record.status = answer.result["status"]
        save_execution(task.directory, record)
        note(task, record, "submitted")
    return record


def mark_never_started(task: Task, record: ExecutionRecord, why: str) -> dict[str, Any]:
    """Note that an execution never came to its endpoint, and return the status that says so."""
    status = {"state": "never_started", "resources_released": True, "survivors": [], "note": why}
    return _ended(task, record, status)


def note(task: Task, record: ExecutionRecord, event: str) -> None:
    """Append an event to the execution's history."""
    path = task.directory / "executions" / record.execution_id / "events.jsonl"
    append_event(path, {"at": timestamp(), "event": event, "state": record.status.get("state")})


async def observe(endpoint: Endpoint, record: ExecutionRecord) -> dict[str, Any]:
    """Return the execution's status as its endpoint sees it now."""
    answer = await endpoint.call("execution.status", {"execution_id": record.execution_id}, deadline_s=30.0)
    record.status = answer.result
    return answer.result


async def when_submitted(record: ExecutionRecord, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask an endpoint about an execution; one that another process may be just about to submit is waited for.

    Raises: Failure of the endpoint; ``not_found`` when it does not have it and nobody is about to submit it.
    """
    pause = FIRST_LOOK_S
    while True:
        try:
            return await ask()
        except Failure as failure:
            if failure.code != "not_found" or not is_young(record):
                raise
        await anyio.sleep(pause)
        pause = min(pause * 1.5, SLOWEST_LOOK_S)


async def touch(endpoint: Endpoint, record: ExecutionRecord) -> dict[str, Any]:
    """Tell an execution with an idle limit that its owner still wants it; return its status.

    Raises: Failure ``not_found`` when its endpoint does not have it.
    """
    answer = await endpoint.call("execution.touch", {"execution_id": record.execution_id}, deadline_s=30.0)
    record.status = answer.result
    return answer.result


async def wait_until(
    ctx: Context, endpoint: Endpoint, record: ExecutionRecord, until: Until, timeout_s: float | None
) -> dict[str, Any]:
    """Wait until an execution is running, exited or released; return its status with ``reached``.

    It returns early when the execution has ended. While it is queued, the progress says behind whom. A lost connection
    is made anew. ``timeout_s`` None waits as long as it takes.

    Raises: Failure of the endpoint.
    """
    end = None if timeout_s is None else time.monotonic() + timeout_s
    told: str | None = None
    lost = 0
    step = FIRST_WAIT_STEP_S
    while True:
        left = step if end is None else max(0.0, min(step, end - time.monotonic()))
        step = min(step * 2, WAIT_STEP_S)
        params = {"execution_id": record.execution_id, "until": until, "timeout_s": left}
        try:
            endpoint = await renewed(ctx, endpoint)
            answer = await endpoint.call("execution.wait", params, deadline_s=left + 30.0)
        except Failure as failure:
            if failure.code != "outcome_unknown" or lost >= RECONNECTS:
                raise
            lost += 1
            continue
        lost = 0
        status = record.status = answer.result
        if status["reached"] or status["state"] in FINAL_STATES:
            return status
        sentence = queue_sentence(status) or f"{record.name} is {status['state']}"
        if sentence != told:
            await ctx.progress(status["state"], sentence, execution_id=record.execution_id, queue=status.get("queue"))
            told = sentence
        if end is not None and time.monotonic() >= end:
            return status


async def log_tail(endpoint: Endpoint, record: ExecutionRecord, stream: str, max_bytes: int = 32_768) -> str:
    """Return the end of one of the execution's logs as text."""
    params = {"execution_id": record.execution_id, "stream": stream, "offset": None, "max_bytes": max_bytes}
    answer = await endpoint.call("execution.tail", params, deadline_s=30.0)
    return answer.body.decode("utf-8", "replace")


async def ask_stop(
    task: Task, endpoint: Endpoint, record: ExecutionRecord, reason: str, wait_s: float = STOP_WAIT_S
) -> dict[str, Any]:
    """Order an execution to stop, wait at most ``wait_s`` for it, and return its status as it is then.

    The record counts as ended only when the execution has ended and everything it held is free.
    """
    if record.ended:
        return record.status
    params = {"execution_id": record.execution_id, "reason": reason, "wait_s": wait_s}
    try:
        answer = await when_submitted(record, lambda: endpoint.call("execution.stop", params, deadline_s=wait_s + 20.0))
    except Failure as failure:
        if failure.code != "not_found":
            raise
        return gone(task, endpoint, record)
    return take_status(task, record, answer.result)


def take_status(task: Task, record: ExecutionRecord, status: dict[str, Any]) -> dict[str, Any]:
    """Keep a status that was observed, and write the record when it tells something new: its state or its end."""
    if status["state"] in FINAL_STATES and status["resources_released"]:
        return status if record.ended else _ended(task, record, status)
    record.status = status
    if record.written_state != status["state"]:
        save_execution(task.directory, record)
    return status


def gone(task: Task, endpoint: Endpoint, record: ExecutionRecord) -> dict[str, Any]:
    """Return the status of an execution whose endpoint has no record of it.

    One that was never seen there never started. Of one that was, the records were deleted; unless the endpoint was
    restarted since, what became of its processes cannot be verified.
    """
    if record.ended:
        return record.status
    before = record.status
    if "boot_id" not in before:
        return mark_never_started(task, record, "its endpoint does not have it")
    restarted = before["boot_id"] not in (None, endpoint.hello.get("boot_id"))
    why = "its endpoint was restarted" if restarted else "its records on the endpoint were deleted"
    lost = {"state": "lost", "resources_released": restarted, "family": [], "queue": None, "note": why}
    return take_status(task, record, {**before, **lost})


def is_young(record: ExecutionRecord) -> bool:
    """Tell whether another process may be just about to submit an execution that its endpoint does not have yet."""
    age = datetime.now(UTC) - datetime.fromisoformat(record.created_at)
    return not record.status and abs(age.total_seconds()) < SUBMISSION_BOUND_S


async def stop(task: Task, endpoint: Endpoint, record: ExecutionRecord, reason: str) -> dict[str, Any]:
    """Stop an execution completely and record it as ended.

    Raises: CleanupFailed when a process survives or its resources are not released in time.
    """
    status = await ask_stop(task, endpoint, record, reason)
    if record.ended:
        return status
    raise stop_incomplete(record, status)


def stop_incomplete(record: ExecutionRecord, status: dict[str, Any]) -> CleanupFailed:
    """Build the failure of a stop that left something: a process, an open port or an occupied device."""
    survivors = ", ".join(str(item) for item in status.get("survivors") or status.get("family") or []) or "unknown"
    return CleanupFailed(
        "stop_incomplete",
        f"execution {record.execution_id} on {record.endpoint.address} is {status['state']}, "
        f"and its resources are not released; survivors: {survivors}",
        layer="remote_workload",
        hint="Look at these processes on the endpoint; task_finish tries again.",
        retry_safe=True,
        phase="stop",
    )


def _ended(task: Task, record: ExecutionRecord, status: dict[str, Any]) -> dict[str, Any]:
    already = record.ended
    record.status, record.ended = status, True
    save_execution(task.directory, record)
    if record.service:
        free_service(task.directory, record.service, record.execution_id)
    if not already:
        note(task, record, "ended")
    return status

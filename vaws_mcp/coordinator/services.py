"""Named executions: the same request reconnects, another one is refused unless it replaces what runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from vaws_mcp.coordinator.executions import (
    FINAL_STATES,
    gone,
    mark_never_started,
    new_record,
    observe,
    stop,
    submit,
    take_status,
    when_submitted,
)
from vaws_mcp.coordinator.failures import service_differs, service_unsupervised
from vaws_mcp.coordinator.records import ExecutionRecord, claim_service, find_execution, save_execution, services
from vaws_mcp.coordinator.wanted import Wanted, identity_digest, identity_parts
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, Failure
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.registry import present
from vaws_mcp.taskstore.tasks import Task

CLAIM_ROUNDS = 4

Prepare = Callable[[Wanted], Awaitable[Wanted]]


@dataclass(frozen=True)
class Started:
    """An execution that was started, or with ``reconnected`` one that was there already."""

    record: ExecutionRecord
    reconnected: bool


async def start_or_reconnect(
    ctx: Context,
    task: Task,
    endpoint: Endpoint,
    wanted: Wanted,
    prepare: Prepare,
    *,
    restart: bool = False,
    complete_last: Prepare | None = None,
) -> Started:
    """Start an execution; with the name of a live service and the same request, reconnect to that one.

    ``prepare`` checks and completes what is wanted. It is called only when something will be started, and before
    anything that runs is stopped. ``restart`` replaces the service that runs now, whatever its spec. ``complete_last``
    is called once, when what had to be stopped is gone: it may write the tree that the old service ran from.

    Raises: Blocked ``service_differs`` or ``service_unsupervised``; Failure of the endpoint or of ``prepare``.
    """
    if wanted.service is None:
        complete = await prepare(wanted)
        if complete_last is not None:
            complete = await complete_last(complete)
        return Started(await submit(task, endpoint, complete), reconnected=False)
    complete: Wanted | None = None
    for _round in range(CLAIM_ROUNDS):
        bound = services(task.directory).get(wanted.service)
        live = await live_service(ctx, task, wanted.service)
        if live is not None and not restart:
            _require_same(live, endpoint, wanted)
            return Started(live, reconnected=True)
        complete = complete or await prepare(wanted)
        if live is not None:
            await stop(task, await _endpoint_of(ctx, live), live, "restart")
            bound = None  # stopping it has freed the name
        if complete_last is not None:
            complete, complete_last = await complete_last(complete), None
        record = new_record(task, endpoint, complete, wanted)
        save_execution(task.directory, record)
        if claim_service(task.directory, wanted.service, record.execution_id, bound):
            return Started(await submit(task, endpoint, complete, record), reconnected=False)
        mark_never_started(task, record, "another call started the service at the same time")
        restart = False  # what was to be replaced is gone; what runs now is as new as this call
    raise Blocked(
        "service_contended",
        f"service {wanted.service!r} is being started and stopped by other calls",
        layer="local",
        hint="Repeat the call when they are done.",
        retry_safe=True,
    )


def _require_same(live: ExecutionRecord, endpoint: Endpoint, wanted: Wanted) -> None:
    parts = identity_parts(endpoint.config, wanted)
    digest = identity_digest(parts)
    name = live.service or ""
    if live.spec_digest != digest:
        known = live.spec_parts
        differs = [part for part in dict.fromkeys((*known, *parts)) if known.get(part) != parts.get(part)]
        raise service_differs(name, live.execution_id, (live.spec_digest, digest), differs if known else [])
    if live.status.get("state") in ("starting", "running") and live.status.get("supervised") is False:
        raise service_unsupervised(name, live.execution_id)


async def live_service(ctx: Context, task: Task, name: str) -> ExecutionRecord | None:
    """Return the execution of a service as it is now, or None when there is none that lives.

    What has ended is noted as ended; what has ended and still holds something is stopped completely first.

    Raises: Failure of the endpoint. CleanupFailed when something of an ended service cannot be ended.
    """
    execution_id = services(task.directory).get(name)
    if execution_id is None:
        return None
    record = find_execution(task.directory, execution_id)
    if record is None or record.ended:
        return None
    endpoint = await _endpoint_of(ctx, record)
    status = await _observed(task, endpoint, record)
    if status["state"] == "stopping" or (status["state"] in FINAL_STATES and not status["resources_released"]):
        await stop(task, endpoint, record, "restart")
        return None
    take_status(task, record, status)
    return None if record.ended else record


async def _observed(task: Task, endpoint: Endpoint, record: ExecutionRecord) -> dict[str, Any]:
    """Return the status; one that another process is just submitting is waited for."""
    try:
        return await when_submitted(record, lambda: observe(endpoint, record))
    except Failure as failure:
        if failure.code != "not_found":
            raise
        return gone(task, endpoint, record)


async def _endpoint_of(ctx: Context, record: ExecutionRecord) -> Endpoint:
    return await connected(ctx, present(ctx.state_dir, record.endpoint))

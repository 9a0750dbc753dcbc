"""Stopping everything that a task has started."""

import anyio

from vaws_mcp.coordinator.executions import stop
from vaws_mcp.coordinator.records import ExecutionRecord, executions
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import connected
from vaws_mcp.endpoint.registry import present
from vaws_mcp.taskstore.tasks import Task

STOPS_AT_ONCE = 8


async def stop_all(ctx: Context, task: Task) -> tuple[list[str], list[str]]:
    """Stop every execution of a task that is not known to have ended, launches before the reservations they use.

    Returns: (ids that ended now, sentences about those that could not be stopped).
    """
    live = [record for record in executions(task.directory) if not record.ended]
    why: dict[str, str] = {}
    at_once = anyio.CapacityLimiter(STOPS_AT_ONCE)

    async def one(record: ExecutionRecord) -> None:
        async with at_once:
            await ctx.progress("stop", f"stopping {record.name}")
            try:
                endpoint = await connected(ctx, present(ctx.state_dir, record.endpoint))
                await stop(task, endpoint, record, "task_finish")
            except Failure as failure:
                why[record.execution_id] = failure.message

    launches = [record for record in live if record.kind not in ("hold", "reservation")]
    holds = [record for record in live if record.kind in ("hold", "reservation")]
    for wave in (launches, holds):
        async with anyio.create_task_group() as group:
            for record in wave:
                group.start_soon(one, record)
    ended = [record.execution_id for record in (*launches, *holds) if record.execution_id not in why]
    return ended, [f"{execution_id}: {message}" for execution_id, message in why.items()]

"""A service that is ready, and how it is stopped."""

from dataclasses import dataclass

import anyio

from vaws_mcp.coordinator.executions import stop
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed, Failure
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.serving.settings import ServeSettings
from vaws_mcp.taskstore.tasks import Task

STOP_BOUND_S = 90.0


@dataclass(frozen=True)
class Service:
    """A service that is ready. Units: ``ready_s`` seconds from submission to the first token."""

    record: ExecutionRecord
    settings: ServeSettings
    port: int
    ready_s: float
    phases: dict[str, float]
    command: list[str]


async def stop_service(
    ctx: Context, task: Task, endpoint: Endpoint, record: ExecutionRecord, after: BaseException | None = None
) -> None:
    """Stop a service completely, also when the caller is being cancelled.

    Raises: CleanupFailed, which carries what a failure before it (``after``) carried.
    """
    why = f"it did not end within {STOP_BOUND_S:.0f} s"
    with anyio.CancelScope(shield=True):
        await ctx.progress("stop", f"stopping {record.service or record.execution_id}")
        with anyio.move_on_after(STOP_BOUND_S):
            try:
                await stop(task, await renewed(ctx, endpoint), record, "stop_service")
            except CleanupFailed as failure:
                raise _with(failure, after) from None
            except Failure as failure:
                why = failure.message
            else:
                return
    failure = CleanupFailed(
        "stop_unverified",
        f"execution {record.execution_id} could not be stopped: {why}",
        layer="transport",
        hint="task_finish stops it when the endpoint can be reached again.",
        retry_safe=True,
        phase="stop",
    )
    raise _with(failure, after)


def _with(failure: CleanupFailed, after: BaseException | None) -> CleanupFailed:
    if isinstance(after, Failure):
        failure.message += f" (after: {after.message})"
        failure.carrying(**after.fields)
    return failure

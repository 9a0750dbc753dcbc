"""Starting a service and stopping it again."""

import time
from dataclasses import dataclass

import anyio

from vaws_mcp.coordinator.asked import checked_environment, device_request
from vaws_mcp.coordinator.executions import Wanted, stop, submit
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.coordinator.wanted import DeviceRequest
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed, Failure
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.serving.command import serve_argv
from vaws_mcp.serving.preflight import choose_port
from vaws_mcp.serving.ready import wait_ready
from vaws_mcp.serving.settings import ServeSettings
from vaws_mcp.serving.target import Target
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


async def start_service(
    ctx: Context,
    task: Task,
    endpoint: Endpoint,
    settings: ServeSettings,
    name: str = "vllm",
    devices: DeviceRequest | None = None,
) -> Service:
    """Start a service and wait for its first token. One that does not become ready is stopped again.

    Without ``devices`` those count that its environment names.

    Raises: Failure of the start, with ``log_tail``; CleanupFailed when stopping it failed too.
    """
    port = await choose_port(endpoint, settings.port)
    command = serve_argv(settings, port)
    begin = time.monotonic()
    wanted = Wanted(
        command=command,
        kind="serve",
        service=name,
        cwd=endpoint.config.workdir,
        env=checked_environment(settings.env),
        env_spec=endpoint.env_spec(),
        ports=[port],
        devices=devices or device_request((), None, settings.env),
        labels={"kind": "vllm-serve", "model": settings.model, **Target.of(settings, port).labels()},
    )
    record = await submit(task, endpoint, wanted)
    try:
        phases = await wait_ready(ctx, endpoint, record, settings, port)
    except BaseException as error:
        await stop_service(ctx, task, endpoint, record, error)
        raise
    return Service(record, settings, port, round(time.monotonic() - begin, 3), phases, command)


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

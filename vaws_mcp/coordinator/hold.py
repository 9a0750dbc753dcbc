"""npu_hold: devices that stay ours for a while, without a command."""

from vaws_mcp.coordinator.asked import device_request, duration_s
from vaws_mcp.coordinator.control import stop_execution
from vaws_mcp.coordinator.executions import observe, submit, take_status
from vaws_mcp.coordinator.failures import no_execution
from vaws_mcp.coordinator.models import ExecutionResult, NpuHoldRequest
from vaws_mcp.coordinator.ready import wait_for
from vaws_mcp.coordinator.records import find_execution
from vaws_mcp.coordinator.run import SETTLE_S, judged, settled
from vaws_mcp.coordinator.view import describe
from vaws_mcp.coordinator.wanted import Hold, Wanted
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import renewed
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import Task, require_task

IDLE_MARGIN_S = 60.0  # such a hold ends by its time alone


def check_hold(request: NpuHoldRequest) -> None:
    """Refuse a request that neither begins nor ends a hold, or does both.

    Raises: Refused.
    """
    asked = request.duration is not None or bool(request.devices) or request.npu_count is not None
    if request.release is not None:
        if asked:
            raise Refused("hold_ambiguous", "release ends a hold and takes nothing else", hint="Make two calls.")
        return
    if request.duration is None:
        raise Refused("duration_missing", "a hold needs a duration", hint="For example --for 30m.")
    duration_s(request.duration)
    if device_request(request.devices, request.npu_count, {}) is None:
        raise Refused("devices_missing", "a hold needs devices or npu_count", hint="For example --npu-count 2.")


@operation(
    "npu_hold",
    title="Hold NPUs for a while",
    effect="write",
    timeout_s=None,
    aliases=(("for", "duration"), ("npus", "npu_count")),
    check=check_hold,
)
async def npu_hold(request: NpuHoldRequest, ctx: Context) -> ExecutionResult:
    """Hold NPUs for `duration` without running anything, or end a hold early with `release`.

    vaws_run with `reservation` runs on the held devices. A hold waits in the same fair queue as everything else; its
    time begins when it is granted.
    """
    task = require_task(ctx, request.context_file, "npu_hold")
    if request.release is not None:
        return await _release(ctx, task, request.release, request.wait_s)
    endpoint = await reach(ctx, request)
    asked = device_request(
        request.devices, request.npu_count, {}, assume_free=request.assume_free, skip_health=request.skip_health
    )
    for_s = float(duration_s(request.duration or ""))
    hold = Hold(idle_s=for_s + IDLE_MARGIN_S, for_s=for_s)
    record = await submit(
        task, endpoint, Wanted(command=[], kind="hold", env_spec=endpoint.env_spec(), devices=asked, hold=hold)
    )
    if request.wait_s is None:
        await settled(ctx, endpoint, record, SETTLE_S)
    else:
        await wait_for(ctx, endpoint, record, "running", request.wait_s)
    status = take_status(task, record, await observe(await renewed(ctx, endpoint), record))
    return judged(describe(ctx, task, record, status), None, reached=True)


async def _release(ctx: Context, task: Task, execution_id: str, wait_s: float | None) -> ExecutionResult:
    record = find_execution(task.directory, execution_id)
    if record is None:
        raise no_execution(f"hold {execution_id} in task {task.task_id}")
    if record.kind != "hold":
        raise Refused(
            "not_a_hold", f"{execution_id} is a {record.kind}", hint="vaws_execution with action=stop ends it."
        )
    return await stop_execution(ctx, task, record, "npu_hold release", wait_s)

"""A comparison in the place of an earlier execution: its endpoint, environment and devices."""

from typing import Any, TypeVar

import orjson

from vaws_mcp.comparison.models import LaunchesRequest
from vaws_mcp.coordinator.executions import FINAL_STATES, observe, take_status
from vaws_mcp.coordinator.records import ExecutionRecord, find_execution
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, Failure, NeedsInput
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.registry import present
from vaws_mcp.taskstore.tasks import Task

R = TypeVar("R", bound=LaunchesRequest)

MOST_BYTES = 4 << 20


async def in_place_of(ctx: Context, task: Task, request: R) -> tuple[Endpoint, R]:
    """Return the endpoint of the execution that a request names, and the request with its environment and devices.

    What the request says itself stays. A service that lives is neither stopped nor shared.

    Raises: NeedsInput ``execution_unknown``; Blocked ``execution_alive``; Failure ``spec_missing`` or of the endpoint.
    """
    record = find_execution(task.directory, request.execution_id or "")
    if record is None:
        raise NeedsInput(
            "execution_unknown",
            f"task {task.task_id} has no execution {request.execution_id}",
            hint="task_show lists the executions of a task.",
        )
    endpoint = await connected(ctx, present(ctx.state_dir, record.endpoint))
    status = record.status if record.ended else take_status(task, record, await observe(endpoint, record))
    if not record.ended and status["state"] not in FINAL_STATES:
        raise Blocked(
            "execution_alive",
            f"{record.name} ({record.execution_id}) is {status['state']} and uses its devices",
            layer="remote_workload",
            hint="It is neither stopped nor shared: end it first (serve_stop, vaws_execution), then repeat this call.",
            retry_safe=True,
            phase="reservation",
        )
    spec = await _spec(endpoint, record)
    said = request.model_fields_set
    env = {name: value for name, value in (spec.get("env") or {}).items() if isinstance(value, str)}
    update: dict[str, Any] = {"extra_env": {**env, **request.extra_env}}
    if not {"devices", "npu_count"} & said:
        ids = [str(device["logic"]) for device in status.get("devices") or []] or _asked(spec)
        update["devices"] = tuple(ids) if ids else ("none",)
    return endpoint, request.model_copy(update=update)


def _asked(spec: dict[str, Any]) -> list[str]:
    devices = spec.get("devices")
    return [str(one) for one in devices.get("ids") or []] if isinstance(devices, dict) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportUnknownMemberType]


async def _spec(endpoint: Endpoint, record: ExecutionRecord) -> dict[str, Any]:
    """Return the spec of an execution from its endpoint, which alone has the values of its variables."""
    path = f"{endpoint.hello['home']}/.vaws/executions/{record.execution_id}/spec.json"
    limits = {"max_bytes": MOST_BYTES, "max_line_bytes": MOST_BYTES}
    try:
        answer = await endpoint.call("read", {"path": path, **limits}, deadline_s=30.0)
        spec = orjson.loads(answer.body)
    except (Failure, orjson.JSONDecodeError) as error:
        if isinstance(error, Failure) and error.layer == "transport":
            raise
        raise Failure(
            "spec_missing",
            f"the spec of {record.execution_id} cannot be read on {endpoint.config.address}",
            layer="remote_env",
            hint="Its records were deleted there; give the endpoint and the devices instead.",
            phase="reservation",
        ) from None
    return dict(spec)

"""Ready: the execution runs and each of its ports is listened on by a process of its own."""

import time
from typing import Any

import anyio

from vaws_mcp.coordinator.executions import FINAL_STATES, Until, observe, wait_until
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.core.context import Context
from vaws_mcp.endpoint.connect import Endpoint, renewed

FIRST_LOOK_S = 0.05
SLOWEST_LOOK_S = 1.0


async def wait_for(
    ctx: Context, endpoint: Endpoint, record: ExecutionRecord, until: str, timeout_s: float | None
) -> dict[str, Any]:
    """Wait until an execution is running, ready, exited or released; return its status with ``reached``.

    Raises: Failure of the endpoint.
    """
    if until != "ready":
        step: Until = "running" if until == "running" else "exited" if until == "exited" else "released"
        return await wait_until(ctx, endpoint, record, step, timeout_s)
    end = None if timeout_s is None else time.monotonic() + timeout_s
    status = await wait_until(ctx, endpoint, record, "running", timeout_s)
    pause = FIRST_LOOK_S
    while status["state"] == "running":
        endpoint = await renewed(ctx, endpoint)
        status = await observe(endpoint, record)
        missing = await _missing(endpoint, status, record) if status["state"] == "running" else None
        if missing == []:
            return {**status, "reached": True}
        left = None if end is None else end - time.monotonic()
        if left is not None and left <= 0:
            break
        await ctx.progress("ready", f"{record.name} runs; not listening yet: {', '.join(map(str, missing or []))}")
        await anyio.sleep(pause if left is None else min(pause, left))
        pause = min(pause * 1.5, SLOWEST_LOOK_S)
    return {**status, "reached": False}


def is_over(status: dict[str, Any]) -> bool:
    """Tell whether nothing will come of an execution any more."""
    return status["state"] in FINAL_STATES


async def _missing(endpoint: Endpoint, status: dict[str, Any], record: ExecutionRecord) -> list[int]:
    """Return the ports that no process of the execution listens on."""
    ports = status.get("ports") or record.ports
    if not ports:
        return []
    found = (await endpoint.call("ports", {"ports": ports})).result["ports"]
    family = {member["pid"] for member in status.get("family") or []}
    root = (status.get("root") or {}).get("pid")
    return [port for port in ports if not _is_ours(found[str(port)], family, root)]


def _is_ours(port: dict[str, Any], family: set[int], root: int | None) -> bool:
    return bool(port["listening"]) and bool(family & set(port["pids"]) or root in port["sids"])

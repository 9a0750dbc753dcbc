"""Whether anybody else used the devices of a launch."""

from collections.abc import Mapping, Sequence
from typing import Any

from vaws_mcp.core.failures import Failure
from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.connect import Endpoint

PROBE_BOUND_S = 20.0


async def foreign_processes(
    endpoint: Endpoint, devices: Sequence[Mapping[str, Any]], execution_id: str | None
) -> list[str] | None:
    """Return a sentence for each process on these devices that is not the execution's; None when nobody can tell.

    Without an execution nothing of ours runs there, so every process is somebody else's.

    Raises: Failure of the connection.
    """
    if not devices:
        return []
    params = {"env_spec": endpoint.env_spec(), "bound_s": PROBE_BOUND_S}
    try:
        found = (await endpoint.call("npu.probe", params, deadline_s=PROBE_BOUND_S + 10, retry_safe=True)).result
    except Failure as failure:
        if failure.layer == "transport":
            raise
        return None
    return foreign(found, devices, execution_id) if found["ok"] else None


def foreign(
    snapshot: Mapping[str, Any], devices: Sequence[Mapping[str, Any]], execution_id: str | None
) -> list[str] | None:
    """Return a sentence for each process of a snapshot that is not the execution's. Pure.

    In a container npu-smi names processes by numbers that mean nothing there. One such process a device is taken for
    the execution's own, since the device was free when it was granted; a second one is not.
    """
    wanted = {device["bus_id"] for device in devices if device.get("bus_id")}
    seen = [device for device in snapshot["devices"] if device.get("bus_id") in wanted]
    if len(seen) < len(devices):
        return None
    sentences: list[str] = []
    for device in seen:
        unresolved = 0
        for holder in device["holders"]:
            if holder["local_pid"] is None and holder["execution_id"] is None:
                unresolved += 1
            own = holder["execution_id"] == execution_id or (holder["local_pid"] is None and unresolved == 1)
            if own and execution_id is not None:
                continue
            who = holder["name"] or "a process"
            user = f" of {holder['user']}" if holder["user"] else ""
            sentences.append(one_line(f"{who} (pid {holder['pid']}){user} on {device['bus_id']}"))
    return sentences

"""The idle limit of a service: calls of ours say now and then that it is still wanted."""

from vaws_mcp.coordinator.executions import touch
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.endpoint.connect import Endpoint

LABEL = "idle_s"
OFTEN_ENOUGH = 4


def idle_label(idle_s: float | None) -> dict[str, str]:
    """Return what the record of a service keeps about its idle limit."""
    return {} if idle_s is None else {LABEL: str(int(idle_s))}


def idle_limit(record: ExecutionRecord) -> float | None:
    """Return the idle limit of a service in seconds, or None when it has none."""
    text = record.labels.get(LABEL, "")
    return float(text) if text.isdecimal() else None


async def still_wanted(endpoint: Endpoint, record: ExecutionRecord) -> None:
    """Begin the idle time of a service anew, if it has a limit and still lives.

    Raises: Failure of the endpoint.
    """
    if idle_limit(record) is not None and not record.ended:
        await touch(endpoint, record)

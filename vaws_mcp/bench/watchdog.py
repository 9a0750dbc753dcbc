"""Telling a benchmark client that works from one that hangs.

A client prints nothing while it measures, so the service is watched: a client whose service has ended, or for which
nothing has moved for long, is not waited for. A real one has hung for ten minutes behind a service that was stopping.
"""

from dataclasses import dataclass

from vaws_mcp.bench.parse_metrics import Counters, parse_metrics
from vaws_mcp.coordinator.executions import FINAL_STATES, observe
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.target import Target, http

STALL_TIMEOUT_S = 120.0
ENDED_GRACE_S = 15.0
PREPARE_S = 600.0
METRICS_TIMEOUT_S = 5.0
METRICS_BYTES = 16 << 20
SLOWEST_LOOK_S = 5.0


@dataclass(frozen=True)
class Look:
    """What was seen of a client and its service at one moment.

    ``answered`` says that the service answered HTTP. ``counters`` None with an answer means that it does not count.
    """

    output_bytes: int
    answered: bool
    counters: Counters | None
    service_ended: bool = False


class Stalled:
    """Decides when a client is no longer waited for. Pure; moments are seconds of any clock.

    Before the service has done anything for it, a client may be making its data set: as long as the service answers,
    ten minutes are allowed for that.
    """

    def __init__(self, stall_timeout_s: float, now: float) -> None:
        self._bound_s = stall_timeout_s
        self._moved_at = now
        self._ended_at: float | None = None
        self._served = False
        self._last: Look | None = None

    def note(self, look: Look, now: float) -> str | None:
        """Take a look into account; return why the client hangs, or None when it may go on."""
        last, self._last = self._last, look
        if look.service_ended:
            self._ended_at = now if self._ended_at is None else self._ended_at
            silent = now - self._ended_at
            if silent >= min(ENDED_GRACE_S, self._bound_s):
                return f"the service has ended, and the client went on for {silent:.0f} s"
        if last is None or self._has_moved(last, look):
            self._moved_at = now if last is not None else self._moved_at
            return None
        still = now - self._moved_at
        bound = self._bound_s if self._served or not look.answered else max(self._bound_s, PREPARE_S)
        if still < bound:
            return None
        service = "the service's counters did not move" if look.answered else "the service did not answer"
        return f"nothing moved for {still:.0f} s: {service}, and the client printed nothing"

    def _has_moved(self, last: Look, look: Look) -> bool:
        if look.answered and look.counters is None:
            return True  # it does not count; that it answers is all that can be known
        if look.counters and last.counters and look.counters.progress != last.counters.progress:
            self._served = True
            return True
        return look.output_bytes != last.output_bytes


@dataclass(frozen=True)
class Watched:
    """The service that a client measures."""

    record: ExecutionRecord
    target: Target


async def read_counters(endpoint: Endpoint, target: Target) -> tuple[bool, Counters | None]:
    """Ask a service for its counters; tell whether it answered at all.

    Raises: Failure of the endpoint.
    """
    answer = await http(endpoint, target, "/metrics", timeout_s=METRICS_TIMEOUT_S, max_bytes=METRICS_BYTES)
    if answer["status"] != 200:
        return answer["status"] is not None, None
    return True, parse_metrics(answer["body"].decode("utf-8", "replace"))


async def look(endpoint: Endpoint, watched: Watched, output_bytes: int) -> Look:
    """Look at a service.

    Raises: Failure of the endpoint, which says nothing about the service.
    """
    try:
        status = await observe(endpoint, watched.record)
        ended = status["state"] in FINAL_STATES
    except Failure as failure:
        if failure.layer == "transport":
            raise
        ended = False
    if ended:
        return Look(output_bytes, answered=False, counters=None, service_ended=True)
    answered, counters = await read_counters(endpoint, watched.target)
    return Look(output_bytes, answered=answered, counters=counters)

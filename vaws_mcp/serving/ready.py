"""Readiness: process alive, port ours, health 200, the name in the model list, and a first token."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from vaws_mcp.coordinator.executions import FINAL_STATES, log_tail, observe
from vaws_mcp.coordinator.queueing import queue_sentence
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.redact import redact_text
from vaws_mcp.core.sanitize import one_line, plain_text
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.serving.failures import admission_blocked, service_exited, service_not_ready
from vaws_mcp.serving.idle import OFTEN_ENOUGH, idle_limit, still_wanted
from vaws_mcp.serving.logs import LogFollower, diagnose
from vaws_mcp.serving.settings import ServeSettings
from vaws_mcp.serving.target import Target, first_token, http, require_own_port, served_models
from vaws_mcp.serving.timeline import ORDER

FIRST_LOOK_S = 0.05
SLOWEST_LOOK_S = 1.0
TOKEN_TIMEOUT_S = 120.0
ENDING_BOUND_S = 30.0
RECONNECTS = 3


@dataclass(frozen=True)
class Stage:
    """How far a start has come: the phase, and what is still missing."""

    phase: str
    missing: str


@dataclass
class Progressed:
    """Where a wait for readiness has ended: ``ready``, ``starting`` or ``queued``. Units: seconds."""

    state: str = "starting"
    missing: str = "the execution has not started"
    phases: dict[str, float] = field(default_factory=dict[str, float])
    took: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Bounds:
    """How long to wait: ``health_s`` from the end of the queue on, ``wait_s`` in all (None: no limit).

    ``left_alone`` says that nobody stops the service when it is not ready in time.
    """

    health_s: float
    wait_s: float | None = None
    left_alone: bool = False


class ReadyWatch:
    """Waits for one service. ``fresh`` says that it was submitted just now, so that our clock tells its phases."""

    def __init__(
        self, ctx: Context, endpoint: Endpoint, record: ExecutionRecord, target: Target, *, fresh: bool
    ) -> None:
        self._ctx = ctx
        self._record = record
        self._target = target
        self._fresh = fresh
        self._follower = LogFollower(endpoint, record)
        self._reached: dict[str, float] = {}
        self._told: str | None = None
        self._touched = time.monotonic()
        self._begin: float | None = None
        self._start = time.monotonic()
        self.progressed = Progressed()

    async def wait(self, bounds: Bounds) -> Progressed:
        """Wait until the service gave its first token, or ``wait_s`` is over.

        Raises: Failure ``service_exited`` with its diagnosis when it ends before. Blocked when it is not admitted.
        TimedOut after ``health_s``. The service is not stopped here.
        """
        self._start = start = time.monotonic()
        pause = FIRST_LOOK_S
        lost = 0
        while True:
            try:
                await self._look(bounds)
                lost = 0
            except Failure as failure:
                if failure.layer != "transport" or lost >= RECONNECTS:
                    raise
                lost += 1
            if self.progressed.state == "ready" or (bounds.wait_s is not None and _since(start) >= bounds.wait_s):
                return self.progressed
            left = pause if bounds.wait_s is None else bounds.wait_s - _since(start)
            await anyio.sleep(max(0.0, min(pause, left)))
            pause = min(pause * 1.3, SLOWEST_LOOK_S)

    async def _look(self, bounds: Bounds) -> None:
        endpoint = self._follower.endpoint = await renewed(self._ctx, self._follower.endpoint)
        await self._keep(endpoint)
        status = await observe(endpoint, self._record)
        if status["state"] in (*FINAL_STATES, "stopping"):
            raise await self._ended(endpoint, status)
        if status["state"] == "queued":
            await self._queued(status)
            return
        if self._begin is None:
            self._begin = time.monotonic()
        stage = await self._stage(endpoint, status, bounds)
        elapsed = _since(self._begin)
        self._note(stage, elapsed)
        await self._tell(stage.phase, stage.missing)
        if stage.phase != "ready" and elapsed > bounds.health_s:
            tail = await both_tails(endpoint, self._record)
            failure = service_not_ready(bounds.health_s, stage.missing, tail, left_alone=bounds.left_alone)
            raise failure.carrying(phases=self.progressed.phases)

    async def _keep(self, endpoint: Endpoint) -> None:
        """Keep a service with an idle limit alive while somebody waits for it."""
        limit = idle_limit(self._record)
        if limit is not None and _since(self._touched) > limit / OFTEN_ENOUGH:
            self._touched = time.monotonic()
            await still_wanted(endpoint, self._record)

    async def _queued(self, status: dict[str, Any]) -> None:
        sentence = queue_sentence(status) or "queued"
        if status.get("blocked"):
            sentence += f"; {one_line(str(status['blocked'].get('message')))}"
        self.progressed = Progressed("queued", sentence)
        await self._tell("queued", sentence)

    async def _stage(self, endpoint: Endpoint, status: dict[str, Any], bounds: Bounds) -> Stage:
        """Find the first condition that does not hold yet."""
        if status["state"] != "running":
            return Stage("starting", f"execution is {status['state']}")
        seen = _since(self._begin) if self._fresh and self._begin is not None else None
        await self._follower.look(seen)
        stage = await listening_stage(endpoint, status, self._target, self._follower.timeline.phase, self._mark)
        if stage is not None:
            return stage
        left = None if bounds.wait_s is None else bounds.wait_s - _since(self._start)
        token = await first_token(endpoint, self._target, _token_bound(left))
        if not token.ok:
            return Stage("first_token", token.why or "no first token")
        self._mark("first_token")
        return Stage("ready", "first token")

    def _mark(self, phase: str) -> None:
        if self._begin is not None:
            self._reached.setdefault(phase, round(_since(self._begin), 3))

    def _note(self, stage: Stage, elapsed: float) -> None:
        """Put the log's phases and our own together, in order."""
        found = self._follower.timeline.phases()
        if self._fresh:
            found |= {name: seconds for name, seconds in self._reached.items() if seconds <= elapsed + 1}
        phases = {name: found[name] for name in ORDER if name in found}
        state = "ready" if stage.phase == "ready" else "starting"
        self.progressed = Progressed(state, stage.missing, phases, dict(self._follower.timeline.took))

    async def _tell(self, phase: str, sentence: str) -> None:
        told = f"{phase}: {sentence}"
        if told != self._told:
            self._told = told
            facts = {"execution_id": self._record.execution_id, "phases": self.progressed.phases}
            await self._ctx.progress(phase, f"{self._target.served_model_name}: {sentence}", **facts)

    async def _ended(self, endpoint: Endpoint, status: dict[str, Any]) -> Failure:
        """Build the failure of a service that ended. One that is stopping is waited for: its log is not complete."""
        end = time.monotonic() + ENDING_BOUND_S
        pause = FIRST_LOOK_S
        while status["state"] == "stopping" and time.monotonic() < end:
            await anyio.sleep(pause)
            pause = min(pause * 1.5, SLOWEST_LOOK_S)
            status = await observe(endpoint, self._record)
        if status.get("blocked"):
            return admission_blocked(self._record, status["blocked"])
        diagnosis = await diagnose(endpoint, self._record)
        failure = service_exited(status, diagnosis, await both_tails(endpoint, self._record))
        return failure.carrying(phases=self._follower.timeline.phases())


def _token_bound(left: float | None) -> float:
    return TOKEN_TIMEOUT_S if left is None else min(TOKEN_TIMEOUT_S, max(1.0, left))


def _since(begin: float) -> float:
    return time.monotonic() - begin


async def listening_stage(
    endpoint: Endpoint, status: dict[str, Any], target: Target, log_phase: str, mark: Callable[[str], None]
) -> Stage | None:
    """Find the first condition that does not hold yet, up to the model list; None when only the token is missing.

    ``mark`` is told the phases that are over.

    Raises: Failure ``port_foreign`` and those of the endpoint.
    """
    health = await http(endpoint, target, "/health")
    if health["status"] is None:
        waits = "does not answer" if health["error"] == "timeout" else "does not listen yet"
        return Stage(log_phase, f"the server {waits}")
    await require_own_port(endpoint, status, target.port)
    if health["status"] != 200:
        return Stage("http", f"/health answers {health['status']}")
    mark("http")
    code, names = await served_models(endpoint, target)
    if target.served_model_name not in names:
        said = "" if code == 200 else f" (it answers {code})"
        return Stage("models", f"/v1/models does not list {target.served_model_name}{said}")
    mark("models")
    return None


async def wait_ready(
    ctx: Context, endpoint: Endpoint, record: ExecutionRecord, settings: ServeSettings, port: int
) -> dict[str, float]:
    """Wait until the service gave its first token; return seconds from now to the end of each phase.

    Raises: Failure ``service_exited`` with its diagnosis when it ends before. TimedOut ``service_not_ready`` after
    ``health_timeout_s``. The service is not stopped here.
    """
    watch = ReadyWatch(ctx, endpoint, record, Target.of(settings, port), fresh=True)
    progressed = await watch.wait(Bounds(settings.health_timeout_s))
    return progressed.phases


async def both_tails(endpoint: Endpoint, record: ExecutionRecord) -> str:
    """Return the ends of both logs as plain text; vLLM writes to either."""
    tails = [plain_text(await log_tail(endpoint, record, name, 6000)).strip() for name in ("stdout", "stderr")]
    return redact_text("\n".join(part for part in tails if part))

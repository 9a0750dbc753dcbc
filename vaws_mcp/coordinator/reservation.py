"""One reservation for all launches of a run: it waits for its turn, is kept alive, and is released at the end."""

import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from vaws_mcp.coordinator.executions import FINAL_STATES, stop, submit, take_status, touch, wait_until
from vaws_mcp.coordinator.failures import reservation_blocked, reservation_lost, start_refused
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.coordinator.wanted import RESERVATION_IDLE_S, DeviceRequest, Hold, TreeUse, Wanted
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed, Failure
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.taskstore.tasks import Task

TOUCH_S = 60.0
RETRY_S = 5.0
BLOCKED_STEP_S = 30.0
RELEASE_BOUND_S = 90.0


@dataclass
class Reservation:
    """Devices, ports and trees that are held for a run. ``devices`` are as the grant says them."""

    record: ExecutionRecord
    status: dict[str, Any]

    @property
    def execution_id(self) -> str:
        """What launches name as their ``reservation``."""
        return self.record.execution_id

    @property
    def devices(self) -> list[dict[str, Any]]:
        """The granted devices: logic, phy, npu, chip, bus_id."""
        return list(self.status.get("devices") or [])

    def request(self) -> DeviceRequest | None:
        """Return what a launch asks for to be given all devices of the reservation."""
        return DeviceRequest(of_reservation=True) if self.devices else None


@asynccontextmanager
async def reserved(
    ctx: Context,
    task: Task,
    endpoint: Endpoint,
    request: DeviceRequest | None,
    trees: Iterable[TreeUse] = (),
    ports: Iterable[int] = (),
) -> AsyncGenerator[Reservation]:
    """Hold devices, trees and ports while the body runs, and release them at its end, also when it is cancelled.

    It waits until they are granted; the progress says behind whom. Every minute it tells the endpoint that its owner
    lives. When the reservation ends by itself the body is cancelled.

    Raises: Failure ``reservation_lost``, or of the grant. CleanupFailed when it cannot be released.
    """
    wanted = Wanted(
        command=[],
        kind="reservation",
        env_spec=endpoint.env_spec(),
        devices=request,
        ports=list(ports),
        trees=tuple(trees),
        hold=Hold(idle_s=RESERVATION_IDLE_S),
        labels={"run": ctx.run_dir.name} if ctx.run_dir else {},
    )
    record = await submit(task, endpoint, wanted)
    keeper = _Keeper(ctx, task, endpoint, record)
    after: BaseException | None = None
    try:
        status = await keeper.granted()
        ctx.resources.start_soon(keeper.keep)
        with keeper.body:
            yield Reservation(record, status)
        keeper.check()
    except BaseException as error:
        after = error
        raise
    finally:
        keeper.over.set()
        await _release(ctx, task, endpoint, record, after)


class _Keeper:
    """Waits for the grant, and tells the endpoint that the owner lives."""

    def __init__(self, ctx: Context, task: Task, endpoint: Endpoint, record: ExecutionRecord) -> None:
        self.body = anyio.CancelScope()
        self.over = anyio.Event()
        self.lost: Failure | None = None
        self._ctx = ctx
        self._task = task
        self._endpoint = endpoint
        self._record = record

    async def granted(self) -> dict[str, Any]:
        """Wait until everything is held.

        Raises: Failure with the supervisor's reason when it is refused, ``reservation_lost`` when it ends otherwise.
        Blocked when nothing can be granted for as long as the endpoint stays as it is, such as without a probe.
        """
        blocked: dict[str, Any] | None = None
        while True:
            status = await wait_until(self._ctx, self._endpoint, self._record, "running", BLOCKED_STEP_S)
            take_status(self._task, self._record, status)
            if status["reached"]:
                return status
            if status["state"] in FINAL_STATES:
                raise self._ended_early(status)
            if blocked and status.get("blocked"):
                raise reservation_blocked(self._record.execution_id, status["blocked"])
            blocked = status.get("blocked")

    def _ended_early(self, status: dict[str, Any]) -> Failure:
        execution_id, why = self._record.execution_id, str(status.get("note") or status["state"])
        if status["state"] == "exited" and status.get("started_at") is None and not status.get("stop_reason"):
            fields = {"execution_id": execution_id}
            return start_refused(f"the reservation was not granted: {why}", status.get("blocked"), fields)
        return reservation_lost(execution_id, why)

    def check(self) -> None:
        """Raise what cancelled the body, if anything did."""
        if self.lost is not None and self.body.cancelled_caught:
            raise self.lost

    async def keep(self) -> None:
        """Touch the reservation until the body is over; cancel the body when the reservation is no more."""
        touched = time.monotonic()
        pause = TOUCH_S
        while not self.over.is_set():
            with anyio.move_on_after(pause):
                await self.over.wait()
                return
            try:
                ended = await self._touch()
            except Failure as failure:
                ended, pause = None, RETRY_S
                if failure.code == "not_found" or time.monotonic() - touched > RESERVATION_IDLE_S:
                    ended = failure.message
            else:
                touched, pause = time.monotonic(), TOUCH_S
            if ended is not None:
                self.lost = reservation_lost(self._record.execution_id, ended)
                self.body.cancel()
                return

    async def _touch(self) -> str | None:
        """Say that the owner lives; return why the reservation has ended, or None.

        Raises: Failure, ``not_found`` when there is no such reservation any more.
        """
        self._endpoint = await renewed(self._ctx, self._endpoint)
        status = await touch(self._endpoint, self._record)
        if status["state"] not in (*FINAL_STATES, "stopping"):
            return None
        return str(status.get("note") or status.get("stop_reason") or f"it is {status['state']}")


async def _release(
    ctx: Context, task: Task, endpoint: Endpoint, record: ExecutionRecord, after: BaseException | None
) -> None:
    """Release a reservation, also when the caller is being cancelled.

    Raises: CleanupFailed, which names the failure before it (``after``) and carries what that carried.
    """
    why = f"it did not end within {RELEASE_BOUND_S:.0f} s"
    with anyio.CancelScope(shield=True), anyio.move_on_after(RELEASE_BOUND_S):
        try:
            await stop(task, await renewed(ctx, endpoint), record, "the run is over")
        except Failure as failure:
            why = failure.message
    if record.ended:
        return
    left = CleanupFailed(
        "reservation_kept",
        f"reservation {record.execution_id} could not be released: {why}",
        layer="transport",
        hint="It ends by itself when nothing runs in it and its owner is silent; task_finish ends it now.",
        retry_safe=True,
        phase="reservation",
    )
    if isinstance(after, Failure):
        left.message += f" (after: {after.message})"
        left.carrying(**after.fields)
    raise left

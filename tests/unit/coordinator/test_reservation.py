"""A reservation waits for its turn, is kept alive while it is used, and is released however its use ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_endpoint import World, failure, status_of

from vaws_mcp.coordinator import reservation as module
from vaws_mcp.coordinator.records import executions
from vaws_mcp.coordinator.reservation import reserved
from vaws_mcp.coordinator.wanted import DeviceRequest, TreeUse
from vaws_mcp.core.context import Resources
from vaws_mcp.core.failures import Blocked, CleanupFailed, Failure

TWO = DeviceRequest(count=2)


def state(world: World) -> str:
    (record,) = executions(world.task.directory)
    return str(world.endpoint.statuses[record.execution_id]["state"])


def after_touches(world: World, count: int, cut: int = 0) -> anyio.Event:
    """An event that comes with the touch of this number; the connection is lost at the first ``cut`` ones."""
    seen = anyio.Event()

    def look(method: str, _params: dict[str, Any]) -> None:
        touches = world.endpoint.calls.count("execution.touch")
        if touches >= count:
            seen.set()
        if method == "execution.touch" and touches <= cut:
            raise failure("outcome_unknown", "transport")

    world.endpoint.before = look
    return seen


@pytest.mark.asyncio
async def test_it_holds_what_was_asked_for_and_is_released_at_the_end(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        trees = [TreeUse("/tree")]
        async with reserved(world.ctx, world.task, world.endpoint, TWO, trees, [80]) as held:
            assert state(world) == "running"
            assert held.request() is None  # the fake grants no device
        (spec,) = world.endpoint.specs
    assert (spec["argv"], spec["devices"], spec["ports"]) == ([], {"count": 2}, [80])
    assert spec["hold"] == {"idle_s": 600.0, "for_s": None}
    assert state(world) == "exited"
    (record,) = executions(world.task.directory)
    assert (record.kind, record.ended) == ("reservation", True)


@pytest.mark.asyncio
async def test_an_error_of_the_body_comes_through_as_it_is(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        with pytest.raises(KeyError):
            async with reserved(world.ctx, world.task, world.endpoint, TWO):
                raise KeyError("x")
    assert state(world) == "exited"


@pytest.mark.parametrize("first_state", ["queued", "running"])
@pytest.mark.asyncio
async def test_it_is_released_when_its_owner_is_cancelled(state_dir: Path, first_state: str) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        world.endpoint.first_state = first_state
        with anyio.move_on_after(0.05) as scope:
            async with reserved(world.ctx, world.task, world.endpoint, TWO):
                await anyio.sleep(30)
        assert scope.cancelled_caught
    assert state(world) == "exited"


@pytest.mark.asyncio
async def test_it_is_touched_while_it_is_used(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOUCH_S", 0.01)
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        enough = after_touches(world, 3)
        async with reserved(world.ctx, world.task, world.endpoint, TWO):
            with anyio.fail_after(5):
                await enough.wait()


@pytest.mark.parametrize("end", ["exited", "gone"])
@pytest.mark.asyncio
async def test_one_that_ends_by_itself_cancels_the_body_with_a_failure(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(module, "TOUCH_S", 0.01)
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()

        def vanish(method: str, _params: dict[str, Any]) -> None:
            if method == "execution.touch" and end == "gone":
                raise failure("not_found")

        async def use() -> None:
            async with reserved(world.ctx, world.task, world.endpoint, TWO) as held:
                world.endpoint.before = vanish
                if end == "exited":
                    found = status_of(held.execution_id, "exited", note="its time is over")
                    world.endpoint.statuses[held.execution_id] = found
                await anyio.sleep(30)

        with pytest.raises(Failure) as caught:
            await use()
    assert caught.value.code == "reservation_lost"
    assert ("its time is over" in caught.value.message) == (end == "exited")


@pytest.mark.asyncio
async def test_a_short_loss_of_the_connection_is_no_loss_of_the_reservation(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOUCH_S", 0.01)
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        enough = after_touches(world, 5, cut=3)
        async with reserved(world.ctx, world.task, world.endpoint, TWO):
            with anyio.fail_after(5):
                await enough.wait()
    assert state(world) == "exited"


@pytest.mark.asyncio
async def test_one_that_is_refused_says_why_and_leaves_nothing(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()

        def refuse(method: str, params: dict[str, Any]) -> None:
            if method == "execution.wait":
                why = {"code": "tree_locked", "message": "ann has it", "hint": "wait for ann"}
                ended = status_of(params["execution_id"], "exited", blocked=why, note="ann has it")
                world.endpoint.statuses[params["execution_id"]] = ended

        world.endpoint.before = refuse
        world.endpoint.first_state = "queued"
        with pytest.raises(Blocked, match="ann has it") as caught:
            async with reserved(world.ctx, world.task, world.endpoint, TWO):
                pytest.fail("it was granted")
    assert (caught.value.code, caught.value.hint) == ("tree_locked", "wait for ann")
    (record,) = executions(world.task.directory)
    assert record.ended


@pytest.mark.asyncio
async def test_one_that_cannot_be_released_is_said_and_keeps_the_first_failure(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()

        def cut(method: str, _params: dict[str, Any]) -> None:
            if method == "execution.stop":
                raise failure("outcome_unknown", "transport")

        world.endpoint.before = cut
        with pytest.raises(CleanupFailed) as caught:
            async with reserved(world.ctx, world.task, world.endpoint, TWO):
                raise failure("broken").carrying(kept=1)
    assert "it says broken" in caught.value.message
    assert caught.value.fields["kept"] == 1
    assert state(world) == "running"


@pytest.mark.asyncio
async def test_one_that_stays_blocked_is_given_up_with_the_reason(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCKED_STEP_S", 0.01)
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        world.endpoint.first_state = "queued"

        def block(method: str, params: dict[str, Any]) -> None:
            if method == "execution.wait":
                found = world.endpoint.statuses[params["execution_id"]]
                found["blocked"] = {"code": "probe_failed", "message": "npu-smi says no", "hint": "look at it"}

        world.endpoint.before = block
        with pytest.raises(Blocked, match="npu-smi says no") as caught:
            async with reserved(world.ctx, world.task, world.endpoint, TWO):
                pytest.fail("it was granted")
    assert (caught.value.code, caught.value.hint) == ("probe_failed", "look at it")
    assert state(world) == "exited"

"""A service name leads to one execution: the same request reconnects, another is refused unless it replaces it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_endpoint import World, failure, status_of

from vaws_mcp.coordinator.executions import Wanted, submit
from vaws_mcp.coordinator.records import executions, services
from vaws_mcp.coordinator.services import Started, start_or_reconnect
from vaws_mcp.core.context import Resources
from vaws_mcp.core.failures import Blocked, CleanupFailed, Failure

WEB = Wanted(["serve"], service="web", ports=[80])


async def as_it_is(wanted: Wanted) -> Wanted:
    return wanted


async def start(world: World, wanted: Wanted = WEB, **more: Any) -> Started:
    return await start_or_reconnect(
        world.ctx, world.task, world.endpoint, wanted, more.pop("prepare", as_it_is), **more
    )


@pytest.mark.asyncio
async def test_the_same_request_reconnects_and_submits_nothing(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        first = await start(world)
        second = await start(world, replace(WEB, receipt={"later": True}))
    assert (first.reconnected, second.reconnected) == (False, True)
    assert first.record.execution_id == second.record.execution_id
    assert len(world.endpoint.specs) == 1


@pytest.mark.asyncio
async def test_what_was_filled_in_later_does_not_count_for_the_comparison(state_dir: Path) -> None:
    async def choose(wanted: Wanted) -> Wanted:
        return replace(wanted, ports=[8123], command=[*wanted.command, "--port", "8123"])

    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        first = await start(world, replace(WEB, ports=[]), prepare=choose)
        assert first.record.ports == [8123]
        assert (await start(world, replace(WEB, ports=[]), prepare=choose)).reconnected


@pytest.mark.parametrize("state", ["queued", "starting", "running"])
@pytest.mark.asyncio
async def test_a_service_on_its_way_is_reconnected_to(state_dir: Path, state: str) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        world.endpoint.first_state = state
        first = await start(world)
        assert (await start(world)).record.execution_id == first.record.execution_id


@pytest.mark.asyncio
async def test_another_spec_is_refused_with_what_differs(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        first = await start(world)
        with pytest.raises(Blocked) as caught:
            await start(world, replace(WEB, ports=[81], env={"A": "1"}))
    assert caught.value.code == "service_differs"
    assert caught.value.fields["differs"] == ["env", "ports"]
    assert str(first.record.spec_digest) in caught.value.message
    assert "restart" in str(caught.value.hint)


@pytest.mark.asyncio
async def test_a_restart_prepares_before_it_stops_what_runs(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        first = await start(world)

        async def refuse(_wanted: Wanted) -> Wanted:
            raise failure("preflight_failed")

        with pytest.raises(Failure, match="preflight"):
            await start(world, replace(WEB, ports=[81]), restart=True, prepare=refuse)
        assert world.endpoint.statuses[first.record.execution_id]["state"] == "running"
        second = await start(world, replace(WEB, ports=[81]), restart=True)
    assert not second.reconnected
    assert world.endpoint.statuses[first.record.execution_id]["state"] == "exited"
    assert services(world.task.directory) == {"web": second.record.execution_id}


@pytest.mark.asyncio
async def test_one_that_ended_is_started_anew(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        first = await start(world)
        world.endpoint.statuses[first.record.execution_id] = status_of(first.record.execution_id, "exited")
        second = await start(world, replace(WEB, ports=[81]))
    assert second.record.execution_id != first.record.execution_id
    assert [record.ended for record in executions(world.task.directory)].count(True) == 1


@pytest.mark.asyncio
async def test_leftovers_of_an_ended_service_must_go_first(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        first = await start(world)
        left = status_of(first.record.execution_id, "exited", resources_released=False, survivors=[{"pid": 5}])
        world.endpoint.statuses[first.record.execution_id] = left
        with pytest.raises(CleanupFailed, match="5"):
            await start(world)
    assert len(world.endpoint.specs) == 1


@pytest.mark.asyncio
async def test_a_service_without_its_supervisor_is_not_reconnected_to(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        first = await start(world)
        world.endpoint.statuses[first.record.execution_id]["supervised"] = False
        with pytest.raises(Blocked) as caught:
            await start(world)
        assert caught.value.code == "service_unsupervised"
        assert not (await start(world, restart=True)).reconnected


@pytest.mark.asyncio
async def test_calls_at_the_same_time_start_one_execution(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        found: list[Started] = []

        async def slowly(wanted: Wanted) -> Wanted:
            await anyio.sleep(0.01)
            return wanted

        async def one() -> None:
            found.append(await start(world, prepare=slowly))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(one)
    assert len({started.record.execution_id for started in found}) == 1
    assert [started.reconnected for started in found].count(False) == 1
    assert len(world.endpoint.specs) == 1
    left = [record for record in executions(world.task.directory) if not record.ended]
    assert len(left) == 1


@pytest.mark.asyncio
async def test_one_that_another_process_is_just_submitting_is_waited_for(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()

        def cut(method: str, _params: dict[str, Any]) -> None:
            if method == "execution.submit":
                raise failure("outcome_unknown", "transport")

        world.endpoint.before = cut
        with pytest.raises(Failure):
            await submit(world.task, world.endpoint, WEB)
        (record,) = executions(world.task.directory)

        def arrive(method: str, _params: dict[str, Any]) -> None:
            if world.endpoint.calls.count("execution.status") > 2:
                world.endpoint.statuses[record.execution_id] = status_of(record.execution_id)

        world.endpoint.before = arrive
        again = await start(world)
    assert again.reconnected
    assert again.record.execution_id == record.execution_id

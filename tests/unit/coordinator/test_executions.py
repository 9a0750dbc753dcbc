"""An execution is recorded before it is submitted, found again, waited for and stopped; its end is never made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import BOOT, World, failure, status_of

from vaws_mcp.coordinator import executions as module
from vaws_mcp.coordinator.executions import Wanted, gone, stop, submit, wait_until
from vaws_mcp.coordinator.finish import stop_all
from vaws_mcp.coordinator.records import executions, services
from vaws_mcp.core.context import Resources
from vaws_mcp.core.failures import CleanupFailed, Failure

RUN = Wanted(["sleep", "9"])


def records(world: World) -> list[Any]:
    return list(executions(world.task.directory))


@pytest.mark.asyncio
async def test_the_record_is_there_before_the_submission_and_stays_when_its_outcome_is_unknown(state_dir: Path) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)

        def cut(_method: str, params: dict[str, Any]) -> None:
            assert [record.execution_id for record in records(world)] == [params["spec"]["execution_id"]]
            raise failure("outcome_unknown", "transport")

        world.endpoint.before = cut
        with pytest.raises(Failure) as caught:
            await submit(world.task, world.endpoint, Wanted(["serve"], service="web"))
    (record,) = records(world)
    assert not record.ended
    assert services(world.task.directory) == {"web": record.execution_id}
    assert caught.value.fields["execution_id"] == record.execution_id


@pytest.mark.asyncio
async def test_a_refused_spec_is_recorded_as_never_started(state_dir: Path) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)

        def refuse(_method: str, _params: dict[str, Any]) -> None:
            raise failure("bad_params")

        world.endpoint.before = refuse
        with pytest.raises(Failure):
            await submit(world.task, world.endpoint, Wanted(["serve"], service="web"))
    (record,) = records(world)
    assert record.ended
    assert record.status["state"] == "never_started"
    assert services(world.task.directory) == {}


@pytest.mark.asyncio
async def test_stopping_twice_is_harmless_and_the_second_time_asks_nobody(state_dir: Path) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)
        record = await submit(world.task, world.endpoint, RUN)
        first = await stop(world.task, world.endpoint, record, "test")
        calls = len(world.endpoint.calls)
        assert await stop(world.task, world.endpoint, record, "again") == first
    assert (first["state"], first["stop_reason"]) == ("exited", "test")
    assert len(world.endpoint.calls) == calls
    assert records(world)[0].ended


@pytest.mark.asyncio
async def test_what_survives_a_stop_is_a_failed_cleanup_that_names_it(state_dir: Path) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)
        record = await submit(world.task, world.endpoint, RUN)
        left = status_of(record.execution_id, "exited", resources_released=False, survivors=[{"pid": 77}])
        world.endpoint.statuses[record.execution_id] = left
        with pytest.raises(CleanupFailed, match="77"):
            await stop(world.task, world.endpoint, record, "test")
    assert not records(world)[0].ended


@pytest.mark.asyncio
async def test_deleted_records_of_an_endpoint_are_lost_and_never_a_clean_end(state_dir: Path) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)
        record = await submit(world.task, world.endpoint, RUN)
        world.endpoint.statuses.clear()
        with pytest.raises(CleanupFailed, match="lost"):
            await stop(world.task, world.endpoint, record, "test")
        assert not records(world)[0].ended
        world.endpoint.hello = {"boot_id": "boot-2"}
        status = await stop(world.task, world.endpoint, record, "test")
    assert (status["state"], status["resources_released"]) == ("lost", True)
    assert "restarted" in status["note"]
    assert records(world)[0].ended


@pytest.mark.asyncio
async def test_an_execution_that_was_never_seen_never_started(state_dir: Path) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)
        record = module.new_record(world.task, world.endpoint, RUN)
        assert module.is_young(record)
        assert gone(world.task, world.endpoint, record)["state"] == "never_started"
        assert not module.is_young(record)


@pytest.mark.asyncio
async def test_what_another_process_is_just_submitting_is_stopped_and_not_called_never_started(
    state_dir: Path,
) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)
        record = module.new_record(world.task, world.endpoint, RUN)

        def arrives_late(method: str, _params: dict[str, Any]) -> None:
            if world.endpoint.calls.count(method) == 3:
                world.endpoint.statuses[record.execution_id] = status_of(record.execution_id)

        world.endpoint.before = arrives_late
        status = await stop(world.task, world.endpoint, record, "test")
    assert (status["state"], status["resources_released"]) == ("exited", True)
    assert world.endpoint.calls == ["execution.stop"] * 3


@pytest.mark.asyncio
async def test_launches_are_stopped_before_the_reservations_they_use(state_dir: Path) -> None:
    async with Resources() as resources:
        world = await World(state_dir, resources).connect()
        held = await submit(world.task, world.endpoint, Wanted([], kind="reservation"))
        run = await submit(world.task, world.endpoint, RUN)
        stopped: list[str] = []

        def note(method: str, params: dict[str, Any]) -> None:
            if method == "execution.stop":
                stopped.append(params["execution_id"])

        world.endpoint.before = note
        ended, failed = await stop_all(world.ctx, world.task)
    assert stopped == ended == [run.execution_id, held.execution_id]
    assert failed == []


@pytest.mark.asyncio
async def test_waiting_tells_each_change_of_the_queue_once_and_survives_a_lost_connection(state_dir: Path) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)
        world.endpoint.first_state = "queued"
        record = await submit(world.task, world.endpoint, RUN)
        place = [3, 3, 2, None]

        def move(method: str, _params: dict[str, Any]) -> None:
            if method != "execution.wait":
                return
            if place[0] == 2 and "cut" not in world.endpoint.hello:
                world.endpoint.hello["cut"] = True
                raise failure("outcome_unknown", "transport")
            position = place.pop(0)
            queue = {"position": position, "since": 0, "waiting_for": [], "ahead": []}
            found = status_of(record.execution_id, "queued", queue=queue)
            world.endpoint.statuses[record.execution_id] = found if position else status_of(record.execution_id)

        world.endpoint.before = move
        status = await wait_until(world.ctx, world.endpoint, record, "running", 30)
    assert (status["state"], status["reached"]) == ("running", True)
    assert [event.message.split(" since")[0] for event in world.events] == [
        "queued at position 3",
        "queued at position 2",
    ]


@pytest.mark.asyncio
async def test_waiting_ends_at_its_bound_and_with_the_execution(state_dir: Path) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)
        world.endpoint.first_state = "queued"
        record = await submit(world.task, world.endpoint, RUN)
        assert (await wait_until(world.ctx, world.endpoint, record, "running", 0))["reached"] is False
        world.endpoint.statuses[record.execution_id] = status_of(record.execution_id, "exited")
        status = await wait_until(world.ctx, world.endpoint, record, "running", None)
    assert (status["state"], status["reached"], status["boot_id"]) == ("exited", False, BOOT)


@pytest.mark.asyncio
async def test_secrets_of_command_lines_are_in_no_record(state_dir: Path) -> None:
    async with Resources() as resources:
        world = World(state_dir, resources)
        record = await submit(world.task, world.endpoint, Wanted(["serve", "--api-key", "hunter2"]))
        title = {"pid": 7, "title": "serve --api-key hunter2"}
        left = status_of(record.execution_id, "exited", resources_released=False, survivors=[title], family=[title])
        world.endpoint.statuses[record.execution_id] = left
        with pytest.raises(CleanupFailed):
            await stop(world.task, world.endpoint, record, "test")
    folder = world.task.directory / "executions" / record.execution_id
    written = "".join(path.read_text("utf-8") for path in folder.iterdir() if path.is_file())
    assert "hunter2" not in written
    assert records(world)[0].status["survivors"] == [{"pid": 7, "title": "serve --api-key ***"}]

"""The waiting rules: hints, time limits, cancelled calls and cancelled work."""

import json
import signal
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from flow_server import raw_server
from flow_world import Cli, Json, Task, World, signal_run, until
from mcp import Client, MCPError

Connect = Callable[[], AbstractAsyncContextManager[Client]]

STATES = ("first=main", "second=endless")


def answer_of(result: Any) -> Json:
    return json.loads(result.content[0].text)


async def call_until(client: Client, task: Task, arguments: Json, phase: str, state: str) -> str:
    """Call `bench_compare`, cancel the call when the run has got so far, and return the run's id."""
    found = ""
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "bench_compare", arguments)
        found = await anyio.to_thread.run_sync(task.wait_for, phase, state)
        group.cancel_scope.cancel()
    return found


@pytest.mark.asyncio
async def test_a_client_with_a_short_limit_gets_there_by_following_the_hints(
    mcp: Connect, world: World, task: Task
) -> None:
    arguments = world.arguments(task, "first=main", "second=slow-decode", runs=2, wait_s=2)
    calls = 1
    async with mcp() as client:
        answer = answer_of(await client.call_tool("bench_compare", arguments, read_timeout_seconds=4))
        assert (answer["status"], answer["outcome"]) == ("running", "success")
        while answer["status"] == "running":
            assert f"run_wait with run_id={answer['run_id']}" in answer["hint"]
            wait = {"run_id": answer["run_id"], "wait_s": 1}
            answer = answer_of(await client.call_tool("run_wait", wait, read_timeout_seconds=4))
            calls += 1
            assert calls < 60

    assert calls > 2
    assert (answer["status"], answer["outcome"]) == ("ok", "success")
    assert answer["result"]["comparison"][1]["delta_tpot_pct_vs_first"] is not None
    world.assert_clean()


@pytest.mark.asyncio
async def test_a_cancelled_call_leaves_the_run_and_run_cancel_ends_it(mcp: Connect, world: World, task: Task) -> None:
    async with mcp() as client:
        run_id = await call_until(client, task, world.arguments(task, *STATES), "ready", "second")
        status = answer_of(await client.call_tool("run_status", {"run_id": run_id}))
        assert status["state"] == "running"
        cancelled = answer_of(await client.call_tool("run_cancel", {"run_id": run_id}))
        again = answer_of(await client.call_tool("run_cancel", {"run_id": run_id}))

    assert (cancelled["status"], cancelled["outcome"], cancelled["state"]) == ("cancelled", "success", "finished")
    result = cancelled["result"]
    assert (result["status"], result["outcome"], result["error"]["layer"]) == ("cancelled", "cancelled", "caller")
    first, second = result["partial_states"]
    assert (first["label"], first["status"]) == ("first", "ok")
    assert first["aggregated"]["mean_tpot_ms"]["mean"] > 0
    assert (second["label"], second["status"], second["per_run"]) == ("second", "interrupted", [])
    assert result["result_paths"]
    assert again["result"] == result
    world.assert_clean()


@pytest.mark.asyncio
async def test_a_client_that_times_out_leaves_the_run_alive(mcp: Connect, world: World, task: Task, cli: Cli) -> None:
    arguments = world.arguments(task, *STATES)
    async with mcp() as client:
        with pytest.raises(MCPError):
            await client.call_tool("bench_compare", arguments, read_timeout_seconds=2.5)
        listed = answer_of(await client.call_tool("run_list", {"context_file": task.context_file}))

    (row,) = listed["runs"]
    assert (row["operation"], row["state"], row["task_id"]) == ("bench_compare", "running", task.task_id)
    waited = cli("run-wait", row["run_id"], "--wait-s", "0.2")
    assert (waited.code, waited.answer["status"]) == (0, "running")
    cancelled = cli("run-cancel", row["run_id"])
    assert (cancelled.code, cancelled.answer["status"]) == (0, "cancelled")
    waited = cli("run-wait", row["run_id"])
    assert (waited.code, waited.answer["outcome"]) == (130, "cancelled")


@pytest.mark.asyncio
async def test_on_cancel_stop_ends_the_work_with_the_call(mcp: Connect, world: World, task: Task, cli: Cli) -> None:
    async with mcp() as client:
        arguments = world.arguments(task, *STATES, on_cancel="stop")
        run_id = await call_until(client, task, arguments, "ready", "first")
        waited = answer_of(await client.call_tool("run_wait", {"run_id": run_id}))

    assert (waited["state"], waited["status"], waited["outcome"]) == ("finished", "cancelled", "cancelled")
    assert "partial_states" in waited["result"]
    world.assert_clean()


def test_a_run_can_be_cancelled_the_moment_it_was_started(world: World, task: Task) -> None:
    with raw_server(world.state_dir) as server:
        started = server.call("bench_compare", world.arguments(task, *STATES, wait_s=0))
        began = time.monotonic()
        cancelled = server.call("run_cancel", {"run_id": started["run_id"]})
    assert (cancelled["status"], cancelled["state"]) == ("cancelled", "finished")
    assert time.monotonic() - began < 10
    assert cancelled["result"]["outcome"] == "cancelled"
    world.assert_clean()


def test_asking_twice_does_not_disturb_the_cleaning_up(world: World, task: Task) -> None:
    with raw_server(world.state_dir) as server:
        call = server.start("bench_compare", world.arguments(task, "first=fault-hang_on_stop", "second=main"))
        run_id = task.wait_for("ready", "first")
        signal_run(task.runs[0], signal.SIGTERM)
        until(lambda: task.events()[-1]["phase"] == "stop", 10, "the service is being stopped")
        cancelled = server.call("run_cancel", {"run_id": run_id})
        answer = json.loads(server.answer(call)["content"][0]["text"])
    assert cancelled["status"] == answer["status"] == "cancelled"
    world.assert_clean()

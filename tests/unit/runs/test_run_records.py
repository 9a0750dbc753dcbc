"""A run's state follows from its lock, so a dead process is never taken for a live one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import NeedsInput, Refused
from vaws_mcp.core.progress import ProgressEvent
from vaws_mcp.runs.follow import follow
from vaws_mcp.runs.launch import create_run
from vaws_mcp.runs.operations import stop_process
from vaws_mcp.runs.records import RunDir, all_runs, find_run
from vaws_mcp.runs.view import view
from vaws_mcp.store.events import append_event
from vaws_mcp.store.ids import new_id
from vaws_mcp.taskstore.records import Sources
from vaws_mcp.taskstore.tasks import create_task


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    task = create_task(tmp_path, "work", None, Sources())
    return create_run(task, "benchmark/runs", "bench_run", {"model": "m", "extra_env": {"HF_TOKEN": "abc123"}})


def finish(run: RunDir) -> None:
    record = run.record()
    record.state, record.status, record.outcome = "finished", "ok", "success"
    run.save(record)
    (run.path / "result.json").write_text('{"status": "ok", "outcome": "success", "summary": "done", "refs": {}}')


def test_a_run_without_a_living_process_is_interrupted(run: RunDir) -> None:
    assert run.state() == "interrupted"
    handle = run.hold_lock()
    assert run.state() == "starting"
    os.close(handle)
    assert run.state() == "interrupted"
    finish(run)
    assert run.state() == "finished"


def test_a_run_has_one_process(run: RunDir) -> None:
    handle = run.hold_lock()
    with pytest.raises(BlockingIOError):
        run.hold_lock()
    os.close(handle)


def test_the_record_on_disk_holds_no_secret(run: RunDir) -> None:
    assert "abc123" not in (run.path / "run.json").read_text()


def test_a_run_is_found_by_its_id_in_any_task(run: RunDir, tmp_path: Path) -> None:
    assert find_run(tmp_path, run.run_id) == run
    assert list(all_runs(run.task_dir)) == [run]
    with pytest.raises(NeedsInput, match="there is no run"):
        find_run(tmp_path, new_id("run"))


@pytest.mark.parametrize("text", ["", "*", "../../x", "execution-20260101T000000-00000000"])
def test_what_is_no_run_id_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Refused):
        find_run(tmp_path, text)


def test_a_live_run_answers_running_and_names_the_next_call(run: RunDir) -> None:
    handle = run.hold_lock()
    append_event(run.events, {"phase": "bench", "message": "run 1 of 3"})
    answer = view(run, run.state(), with_result=False)
    os.close(handle)
    assert (answer.status, answer.outcome, answer.phase) == ("running", "success", "bench")
    assert f"run_wait with run_id={run.run_id}" in str(answer.hint)


def test_an_interrupted_run_is_a_failure_that_says_where_its_work_is(run: RunDir) -> None:
    answer = view(run, run.state(), with_result=True)
    assert (answer.status, answer.outcome) == ("interrupted", "failed")
    assert str(run.path) in str(answer.hint)


@pytest.mark.asyncio
async def test_a_dead_process_is_not_signalled(run: RunDir) -> None:
    record = run.record()
    record.pid = 1
    run.save(record)
    assert await stop_process(run) is False


@pytest.mark.asyncio
async def test_following_passes_every_event_on_and_ends_with_the_run(run: RunDir, tmp_path: Path) -> None:
    seen: list[str] = []

    async def sink(event: ProgressEvent) -> None:
        seen.append(event.message)

    for text in ("one", "two"):
        append_event(run.events, {"phase": "bench", "message": text})
    finish(run)
    ctx = Context(state_dir=tmp_path, resources=Resources(), sink=sink)
    assert await follow(ctx, run, None, replay=True) == "finished"
    assert seen == ["one", "two"]
    seen.clear()
    assert await follow(ctx, run, None, replay=False) == "finished"
    assert seen == ["two"]


@pytest.mark.asyncio
async def test_following_ends_when_the_wait_is_over(run: RunDir, tmp_path: Path) -> None:
    handle = run.hold_lock()
    ctx = Context(state_dir=tmp_path, resources=Resources())
    assert await follow(ctx, run, 0.05, replay=True) == "starting"
    os.close(handle)


def test_a_run_whose_record_was_set_aside_does_not_stand_in_the_way(tmp_path: Path) -> None:
    folder = tmp_path / "tasks" / "t-20261130-abcdef" / "benchmark" / "runs" / "run-20261130T000000-0123abcd"
    folder.mkdir(parents=True)
    (folder / "run.json.broken").write_text("{")
    assert list(all_runs(folder.parents[2])) == []
    with pytest.raises(NeedsInput):
        find_run(tmp_path, folder.name)

"""Which tasks use a machine, from their records."""

from __future__ import annotations

from pathlib import Path

from vaws_mcp.npu.machines.usage import usage
from vaws_mcp.store.records import dump_json
from vaws_mcp.taskstore.records import Sources
from vaws_mcp.taskstore.tasks import Task, create_task


def execution(task: Task, name: str, endpoint: str, *, ended: bool) -> Path:
    path = task.directory / "executions" / name / "record.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(dump_json({"ended": ended, "endpoint": {"name": endpoint}}))
    return path


def test_default_endpoints_and_executions_that_have_not_ended_count(tmp_path: Path) -> None:
    by_default = create_task(tmp_path, "one", "box", Sources())
    by_execution = create_task(tmp_path, "two", None, Sources())
    execution(by_execution, "execution-a", "box", ended=False)
    execution(by_execution, "execution-b", "other", ended=True)
    found = usage(tmp_path)
    assert {name: sorted(ids) for name, ids in found.by_endpoint.items()} == {
        "box": sorted([by_default.task_id, by_execution.task_id])
    }
    assert found.unreadable == []


def test_a_finished_task_uses_nothing(tmp_path: Path) -> None:
    task = create_task(tmp_path, "one", "box", Sources())
    path = task.directory / "task.json"
    path.write_text(path.read_text("utf-8").replace('"open"', '"finished"'), "utf-8")
    assert usage(tmp_path).by_endpoint == {}


def test_records_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    task = create_task(tmp_path, "one", "box", Sources())
    torn = execution(task, "execution-a", "box", ended=False)
    torn.write_text('{"ended":', "utf-8")
    broken = create_task(tmp_path, "two", "box", Sources())
    (broken.directory / "context.json").write_text("{", "utf-8")
    found = usage(tmp_path)
    assert found.by_endpoint == {"box": [task.task_id]}
    assert any(str(torn) in line for line in found.unreadable)
    assert any(str(broken.directory) in line for line in found.unreadable)


def test_without_tasks_nothing_is_used(tmp_path: Path) -> None:
    assert usage(tmp_path) == ({}, [])

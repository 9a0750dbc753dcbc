"""A task is found only through its own context file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Failure, NeedsInput, Refused
from vaws_mcp.store.records import load, save
from vaws_mcp.taskstore.records import Sources, TaskRecord
from vaws_mcp.taskstore.tasks import CONTEXT_VARIABLE, Task, create_task, find_task, read_task, require_task


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONTEXT_VARIABLE, raising=False)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return create_task(tmp_path, "work", "local", Sources())


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(state_dir=tmp_path, resources=Resources())


def test_a_task_is_found_by_file_by_directory_and_by_environment(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_task(str(task.context_file)) == task
    assert find_task(str(task.directory)) == task
    monkeypatch.setenv(CONTEXT_VARIABLE, str(task.context_file))
    assert find_task(None) == task


def test_a_task_is_never_guessed(task: Task, ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(task.directory)
    assert find_task(None) is None
    with pytest.raises(NeedsInput, match="bench_run needs a task") as caught:
        require_task(ctx, None, "bench_run")
    assert "task_create" in str(caught.value.hint)


def test_a_missing_context_file_is_said_by_name(tmp_path: Path) -> None:
    with pytest.raises(NeedsInput, match="nowhere") as caught:
        find_task(str(tmp_path / "nowhere"))
    assert caught.value.code == "context_missing"


def test_a_copied_context_file_is_not_accepted(task: Task, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "context.json"
    copy.parent.mkdir()
    shutil.copy(task.context_file, copy)
    with pytest.raises(Failure, match=task.task_id) as caught:
        find_task(str(copy))
    assert caught.value.code == "context_foreign"


def test_a_finished_task_takes_no_new_work(task: Task, ctx: Context) -> None:
    assert require_task(ctx, str(task.context_file), "x") == task
    path = task.directory / "task.json"
    save(path, load(path, TaskRecord).model_copy(update={"state": "finished"}))
    with pytest.raises(NeedsInput, match="finished"):
        require_task(ctx, str(task.context_file), "x")


def test_a_task_without_its_record_is_torn(task: Task) -> None:
    (task.directory / "task.json").unlink()
    with pytest.raises(Failure, match=r"task\.json is missing"):
        read_task(task.directory)


@pytest.mark.parametrize("slug", ["", "A", "a b", "../x", "a" * 41, "-a", "a-"])
def test_a_slug_that_is_no_name_is_refused_and_makes_nothing(tmp_path: Path, slug: str) -> None:
    with pytest.raises(Refused):
        create_task(tmp_path, slug, None, Sources())
    assert list(tmp_path.iterdir()) == []

"""Bad input: the thing, the layer, the next step and the exit code are said, and nothing is lost or started."""

import shutil
from pathlib import Path

import pytest
from flow_world import Cli, Spoken, Task, World

TWO = ("first=main", "second=slow-decode")


def check_refused(spoken: Spoken, code: str, layer: str, exit_code: int, *named: str) -> None:
    """Check how a call ended, and that its message or hint names what is wrong and what to do."""
    error = spoken.answer["error"]
    assert (error["code"], error["layer"], spoken.code) == (code, layer, exit_code), spoken.answer
    said = f"{error['message']} {error['hint']}"
    assert error["hint"]
    assert all(name in said for name in named), said


def assert_nothing_started(world: World, task: Task) -> None:
    assert task.executions == []
    assert [path for run in task.runs for path in (run / "states").glob("*")] == []
    world.assert_clean()


@pytest.mark.parametrize("ref", ["no-such-branch", "0123456789012345678901234567890123456789", "pr:99"])
def test_a_ref_that_does_not_exist_is_named(world: World, task: Task, ref: str) -> None:
    spoken = world.compare(task, "first=main", f"second={ref}")
    check_refused(spoken, "ref_unknown", "caller", 1, ref, str(world.repo))
    assert_nothing_started(world, task)


def test_a_missing_model_path_is_named(world: World, task: Task) -> None:
    spoken = world.compare(task, *TWO, model="/models/absent")
    check_refused(spoken, "model_missing", "remote_env", 1, "/models/absent")
    assert_nothing_started(world, task)


def test_a_changed_tree_is_named_and_left_as_it_is(world: World, task: Task) -> None:
    changed, added = world.repo / "README.md", world.repo / "notes.txt"
    text = changed.read_text("utf-8")
    changed.write_text(text + "my work\n", "utf-8")
    added.write_text("mine\n", "utf-8")
    try:
        spoken = world.compare(task, *TWO)
        check_refused(spoken, "tree_dirty", "remote_env", 3, "README.md", "notes.txt", "Commit or stash")
        assert changed.read_text("utf-8") == text + "my work\n"
        assert added.read_text("utf-8") == "mine\n"
    finally:
        changed.write_text(text, "utf-8")
        added.unlink()
    assert_nothing_started(world, task)


@pytest.mark.parametrize(
    ("states", "more", "code", "named"),
    [
        (("only=main",), {}, "one_state", "bench_run"),
        (("a=main", "A=slow-decode"), {}, "argument_invalid", "given twice"),
        (("a=main", "nothing"), {}, "argument_invalid", "LABEL=REF"),
        (("a=main", "b=-rf"), {}, "ref_malformed", "-rf"),
        (TWO, {"runs": "2", "warmup_runs": "2"}, "argument_invalid", "warmup_runs (2)"),
        (TWO, {"serve_args": "--port 9000"}, "serve_args_conflict", "port"),
        (TWO, {"bench_args": "--result-dir /tmp"}, "bench_args_conflict", "--result-dir"),
        (TWO, {"runs": "many"}, "argument_invalid", "runs"),
    ],
)
def test_contradicting_arguments_are_refused(
    world: World, task: Task, states: tuple[str, ...], more: dict[str, str], code: str, named: str
) -> None:
    spoken = world.compare(task, *states, **more)
    check_refused(spoken, code, "caller", 2, named)
    assert spoken.answer["status"] == "refused"
    assert_nothing_started(world, task)


def test_a_comparison_needs_a_task(world: World, cli: Cli) -> None:
    words = ("--model", world.facts["model"], "--endpoint", "sim", "--state", TWO[0], "--state", TWO[1])
    spoken = cli("bench-compare", *words)
    check_refused(spoken, "task_missing", "caller", 3, "task_create")
    assert spoken.answer["outcome"] == "needs_input"


def test_the_task_may_come_from_the_environment(world: World, task: Task, cli: Cli) -> None:
    shown = cli("task-show", VAWS_CONTEXT_FILE=task.context_file)
    assert (shown.code, shown.answer["task_id"]) == (0, task.task_id)


def test_a_finished_task_takes_no_new_work_and_can_be_finished_again(world: World, task: Task, cli: Cli) -> None:
    first = cli("task-finish", "--context-file", task.context_file)
    again = cli("task-finish", "--context-file", task.context_file)
    assert (first.code, again.code) == (0, 0)
    assert first.answer["state"] == again.answer["state"] == "finished"
    assert first.answer["finished_at"] == again.answer["finished_at"]

    check_refused(world.compare(task, *TWO), "task_finished", "caller", 3, task.task_id, "task_create")
    assert_nothing_started(world, task)


@pytest.mark.parametrize("torn", ['{"schema": "vaws.con', "", '{"schema": "vaws.context.v9"}', "\x00\x01"])
@pytest.mark.parametrize("name", ["context.json", "task.json"])
def test_a_torn_record_is_named_and_left_byte_for_byte(world: World, task: Task, name: str, torn: str) -> None:
    path = task.directory / name
    whole = path.read_bytes()
    path.write_text(torn, "utf-8")
    try:
        for spoken in (
            world.compare(task, *TWO),
            world.cli("task-show", "--context-file", task.context_file),
            world.cli("task-finish", "--context-file", task.context_file),
        ):
            check_refused(spoken, "torn_record", "local", 1, str(path))
        listed = world.cli("task-list")
        assert listed.code == 0
        assert any(str(path) in line for line in listed.answer["unreadable"])
        assert path.read_bytes() == torn.encode()
    finally:
        path.write_bytes(whole)
    assert_nothing_started(world, task)


def test_a_copy_of_a_context_file_is_not_accepted(world: World, task: Task, tmp_path: Path) -> None:
    copy = shutil.copy(task.context_file, tmp_path / "context.json")
    check_refused(
        world.cli("task-show", "--context-file", str(copy)), "context_foreign", "local", 1, task.task_id, str(copy)
    )


def test_a_context_file_that_is_absent_is_named(cli: Cli, tmp_path: Path) -> None:
    absent = str(tmp_path / "context.json")
    check_refused(cli("task-show", "--context-file", absent), "context_missing", "caller", 3, absent, "task_create")
    assert not Path(absent).exists()


def test_an_unknown_endpoint_is_named_with_the_known_ones(cli: Cli) -> None:
    spoken = cli("task-create", "lost", "--endpoint", "simm")
    assert spoken.code == 2
    assert "simm" in spoken.answer["error"]["message"]
    assert "sim" in spoken.answer["error"]["hint"]


@pytest.mark.parametrize(("run_id", "code"), [("../../x", 2), ("run-20260101T000000-00000000", 3)])
def test_a_run_that_does_not_exist_is_named(cli: Cli, run_id: str, code: int) -> None:
    spoken = cli("run-status", run_id)
    assert spoken.code == code
    assert run_id in spoken.answer["error"]["message"]
    assert "run_list" in spoken.answer["error"]["hint"]


def test_task_finish_refuses_while_a_run_is_live_and_stops_it_when_asked(world: World, task: Task, cli: Cli) -> None:
    started = world.compare(task, "first=main", "second=endless", wait_s="0")
    assert (started.code, started.answer["status"]) == (0, "running")
    run_id = task.wait_for("ready", "second")
    refused = cli("task-finish", "--context-file", task.context_file)
    check_refused(refused, "runs_live", "local", 3, run_id, "stop")
    assert cli("run-status", run_id).answer["state"] == "running"

    finished = cli("task-finish", "--stop", "--context-file", task.context_file)
    assert (finished.code, finished.answer["state"]) == (0, "finished")
    assert finished.answer["cancelled_runs"] == [run_id]
    assert cli("run-status", run_id).answer["status"] == "cancelled"
    world.assert_clean()


def test_a_tree_with_a_detached_head_is_put_back_to_its_commit(world: World, task: Task) -> None:
    sha = world.git("rev-parse", "slow-decode")
    world.git("checkout", "--quiet", "--detach", sha)
    try:
        spoken = world.compare(task, *TWO)
        assert spoken.code == 0
        assert world.git("rev-parse", "HEAD") == sha
        assert world.git("branch", "--show-current") == ""
    finally:
        world.git("checkout", "--quiet", "main")

"""bench_run on a live service, after a queue, and when stopping fails."""

import json

import pytest
from flow_world import SMALL_BENCH, Json, Spoken, Task, World

BENCH = ("--bench-args", " ".join(SMALL_BENCH), "--runs", "1")


def bench(world: World, task: Task, *words: str) -> Spoken:
    return world.cli("bench-run", "--context-file", task.context_file, *BENCH, *words)


@pytest.fixture
def service(world: World, task: Task) -> Json:
    model: str = world.facts["model"]
    started = world.cli("serve-start", "--context-file", task.context_file, "--model", model, "--devices", "3")
    assert started.answer["status"] == "ready", started.answer
    return started.answer


def test_a_live_service_is_measured_and_left_alone(world: World, task: Task, service: Json) -> None:
    by_name = bench(world, task, "--service", service["service"])
    by_id = bench(world, task, "--execution-id", service["execution_id"], "--model", world.facts["model"])

    for spoken in (by_name, by_id):
        assert (spoken.code, spoken.answer["status"]) == (0, "ok"), spoken.answer
        assert spoken.answer["execution_id"] == service["execution_id"]
        assert spoken.answer["started_by_this_run"] is False
        assert spoken.answer["metrics"]["mean_tpot_ms"] > 0
    assert len(task.executions) == 1
    status = world.cli("serve-status", "--context-file", task.context_file)
    assert status.answer["status"] == "ready"


def test_another_model_than_the_services_is_refused(world: World, task: Task, service: Json) -> None:
    spoken = bench(world, task, "--service", service["service"], "--model", "/models/other")
    assert spoken.answer["error"]["code"] == "service_other_model"


def test_a_service_that_is_not_there_is_named(world: World, task: Task) -> None:
    spoken = bench(world, task, "--service", "absent")
    assert (spoken.code, spoken.answer["error"]["code"]) == (3, "service_unknown")
    assert "absent" in spoken.answer["error"]["message"]


def test_a_queued_start_says_so_and_the_same_call_goes_on(world: World, task: Task) -> None:
    hold = world.cli("npu-hold", "--context-file", task.context_file, "--devices", "5", "--duration", "5m")
    assert hold.code == 0, hold.answer
    words = ("--model", world.facts["model"], "--devices", "5", "--queue-wait", "0.5")
    queued = bench(world, task, *words)

    assert (queued.code, queued.answer["status"], queued.answer["outcome"]) == (0, "queued", "success")
    execution_id = queued.answer["execution_id"]
    assert execution_id in queued.answer["hint"]
    again = bench(world, task, *words, "--execution-id", execution_id)
    assert (again.answer["status"], again.answer["execution_id"]) == ("queued", execution_id)
    stopped = world.cli("npu-hold", "--context-file", task.context_file, "--release", hold.answer["execution_id"])
    assert stopped.code == 0, stopped.answer
    done = bench(world, task, *words, "--execution-id", execution_id, "--queue-wait", "30")

    assert (done.code, done.answer["status"], done.answer["execution_id"]) == (0, "ok", execution_id), done.answer
    assert done.answer["started_by_this_run"] is True
    assert len(task.executions) == 2
    world.assert_clean()


def test_the_settings_are_those_of_the_live_service(world: World, task: Task, service: Json) -> None:
    spoken = bench(world, task, "--service", service["service"], "--tp", "2", "--devices", "1,2")
    answer = spoken.answer
    assert (answer["config"]["tp"], answer["config"]["devices"]) == (None, {"ids": ["3"]})
    assert answer["config_origin"]["tp"] == "service"
    assert any("tp" in warning and "as it was launched" in warning for warning in answer["warnings"])


def test_the_commit_is_the_one_that_the_live_service_was_started_from(world: World, task: Task, service: Json) -> None:
    before = world.git("rev-parse", "HEAD")
    world.git("-c", "user.name=a", "-c", "user.email=a@b.invalid", "commit", "-q", "--allow-empty", "-m", "later")
    try:
        spoken = bench(world, task, "--service", service["service"])
    finally:
        world.git("reset", "-q", "--hard", before)
    assert spoken.answer["code"]["sha"] == before


def test_a_service_that_another_run_measures_is_not_taken_from_it(world: World, task: Task) -> None:
    with world.compare_later(task, "first=main", "second=endless"):
        run_id = task.wait_for("bench", "second")
        record = json.loads((task.executions[-1] / "record.json").read_text("utf-8"))
        spoken = bench(world, task, "--execution-id", record["execution_id"])
        status = world.cli("run-status", run_id).answer["state"]
        world.cli("run-cancel", run_id)
    assert (spoken.code, spoken.answer["error"]["code"]) == (3, "run_live"), spoken.answer
    assert status == "running"

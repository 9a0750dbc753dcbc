"""Comparisons with several launches a state: order, cases, gates, patch, stash, fixed requests, verdict, plan."""

import csv
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_world import Json, Task, World, commit_stream, until

# VAWS_EQUALS=3 compares so many times; each takes half a minute.
EQUALS = int(os.environ.get("VAWS_EQUALS", "1"))
TWO = ("first=main", "second=slow-decode")
ZERO_NOISE = {"runs": "1", "warmup_runs": "0"}


def launches_of(run: Path) -> list[Json]:
    return [json.loads(path.read_text("utf-8")) for path in sorted((run / "launches").glob("*.json"))]


def test_interleaved_rounds_give_intervals_a_verdict_and_a_file_for_each_launch_and_case(
    world: World, task: Task
) -> None:
    spoken = world.compare(
        task, *TWO, order="interleaved", rounds="2", bench_request_counts="1,2", policy="latency-5pct", **ZERO_NOISE
    )

    answer = spoken.answer
    assert (spoken.code, answer["status"], answer["verdict"]) == (0, "ok", "inconclusive")
    (run,) = task.runs
    names = [path.stem for path in sorted((run / "launches").glob("*.json"))]
    order = ["001-first", "002-second", "003-second", "004-first"]
    assert names == [f"{name}-requests_{count}" for name in order for count in (1, 2)]
    assert [(row["state"], row["case"]) for row in answer["comparison"]] == [
        (state, case) for state in ("first", "second") for case in ("requests_1", "requests_2")
    ]
    effects = {(row["case"], row["metric"]): row["effect"] for row in answer["effects"]}
    assert effects["requests_1", "mean_tpot_ms"]["launches"] == [2, 2]
    assert effects["requests_1", "mean_tpot_ms"]["df"] == 1
    assert {row["name"] for row in answer["judgements"]} >= {"mean_tpot_ms", "failed_requests"}
    gates = {row["name"]: row["verdict"] for row in answer["judgements"]}
    assert (gates["native_inputs_unchanged"], gates["no_contaminated_launch"]) == ("passed", "passed")
    for launch in launches_of(run):
        asked = 1 if launch["case"] == "requests_1" else 2
        assert launch["per_run"][0]["requests"]["asked"] == asked
        assert launch["launch"]["bench_command"][-1].startswith(f"{launch['number']:03d}-")
    with Path(answer["report_paths"]["csv"]).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["launch"] for row in rows] == ["1", "1", "2", "2", "3", "3", "4", "4"]
    assert all(float(row["mean_tpot_ms"]) > 0 for row in rows)

    judged = world.cli("bench-verdict", run.name, "--policy", "latency-5pct")
    assert (judged.code, judged.answer["verdict"]) == (0, "inconclusive")
    assert judged.answer["judgements"] == answer["judgements"]
    assert judged.answer["launches"] == {"first": 2, "second": 2}


def test_a_plan_starts_nothing_and_says_what_would_be_done(world: World, task: Task) -> None:
    words = [*world.compare_words(task, *TWO, order="interleaved", rounds="2"), "--plan"]
    spoken = world.cli(*words)

    assert (spoken.code, spoken.answer["status"]) == (0, "planned")
    plan = spoken.answer["plan"]
    assert [launch["label"] for launch in plan["launches"]] == ["first", "second", "second", "first"]
    assert [state["sha"] for state in plan["states"]] == [
        world.git("rev-parse", ref) for ref in ("main", "slow-decode")
    ]
    assert plan["estimated_minutes"] is None
    assert (task.runs, task.executions) == ([], [])


@pytest.fixture
def native_branch(world: World) -> Iterator[str]:
    """A commit on top of main that changes an input of the native build."""
    stream = commit_stream("native", {}).replace("vllm_ascend/simulation.json", "csrc/other.cpp")
    world.git("fast-import", "--quiet", stdin=stream)
    yield "native"
    world.git("branch", "-D", "native")


def test_other_native_inputs_block_a_state_and_what_was_measured_is_kept(
    world: World, task: Task, native_branch: str
) -> None:
    spoken = world.compare(task, "first=main", f"second={native_branch}", **ZERO_NOISE)

    error = spoken.answer["error"]
    assert (spoken.code, error["code"]) == (3, "native_inputs_differ")
    assert "csrc/other.cpp" in error["message"]
    assert "allow-stale-native" in error["hint"]
    first, second = spoken.answer["partial_states"]
    assert (first["status"], second["status"]) == ("ok", "blocked")


def test_other_native_inputs_can_be_allowed_and_are_warned_of_loudly(
    world: World, task: Task, native_branch: str
) -> None:
    words = world.compare_words(task, "first=main", f"second={native_branch}", policy="latency-5pct", **ZERO_NOISE)
    spoken = world.cli(*words, "--allow-stale-native")

    assert (spoken.code, spoken.answer["verdict"]) == (5, "failed")
    assert any(warning.startswith("NATIVE INPUTS CHANGED") for warning in spoken.answer["warnings"])
    native = [state["launches"][0]["native"] for state in spoken.answer["state_results"]]
    assert [found["changed"] for found in native] == [False, True]
    assert native[1]["inputs"] == ["file csrc/other.cpp"]
    broken = [row["name"] for row in spoken.answer["judgements"] if row["verdict"] == "failed"]
    assert broken == ["native_inputs_unchanged"]


def test_a_patch_is_on_every_state_and_gone_afterwards(world: World, task: Task, tmp_path: Path) -> None:
    target = world.repo / "README.md"
    before = target.read_text("utf-8")
    target.write_text(before + "patched\n", "utf-8")
    patch = tmp_path / "change.patch"
    patch.write_text(world.git("diff") + "\n", "utf-8")
    world.git("checkout", "--", "README.md")

    spoken = world.compare(task, *TWO, remote_patch_file=str(patch), **ZERO_NOISE)

    assert spoken.code == 0, spoken.answer
    assert len(spoken.answer["patch_sha256"]) == 64
    (run,) = task.runs
    assert {launch["patch_sha256"] for launch in launches_of(run)} == {spoken.answer["patch_sha256"]}
    assert target.read_text("utf-8") == before


def test_uncommitted_work_is_put_aside_and_back(world: World, task: Task) -> None:
    changed, added = world.repo / "README.md", world.repo / "notes.txt"
    text = changed.read_text("utf-8")
    changed.write_text(text + "my work\n", "utf-8")
    added.write_text("mine\n", "utf-8")
    try:
        spoken = world.cli(*world.compare_words(task, *TWO, **ZERO_NOISE), "--stash")
        assert spoken.code == 0, spoken.answer
        assert changed.read_text("utf-8") == text + "my work\n"
        assert added.read_text("utf-8") == "mine\n"
        assert world.git("symbolic-ref", "--short", "HEAD") == "main"
    finally:
        changed.write_text(text, "utf-8")
        added.unlink(missing_ok=True)


def test_fixed_requests_are_exact_and_the_same_for_all_states(world: World, task: Task) -> None:
    spoken = world.compare(
        task, *TWO, fixed_input_len="77", fixed_output_len="5", bench_request_counts="2,3", **ZERO_NOISE
    )

    assert spoken.code == 0, spoken.answer
    fixed = spoken.answer["fixed_dataset"]
    assert (fixed["exact"], fixed["input_len"], fixed["output_len"], fixed["rows"]) == (True, 77, 5, 3)
    assert len(fixed["prompt_sha256"]) == 64
    (run,) = task.runs
    for launch in launches_of(run):
        count = int(launch["case"].removeprefix("requests_"))
        assert launch["per_run"][0]["tokens"] == {"output_asked": 5 * count, "output": 5 * count, "input": 77 * count}
        command: list[str] = launch["launch"]["bench_command"]
        assert command[command.index("--dataset-name") + 1] == "custom"
        assert command[command.index("--endpoint") + 1] == "/v1/completions"
        assert {"--skip-chat-template", "--disable-shuffle", "--ignore-eos"} <= set(command)
        assert "--random-input-len" not in command


def test_the_accuracy_probe_of_equal_models_says_the_same(world: World, task: Task, tmp_path: Path) -> None:
    policy: dict[str, Any] = {
        "schema": "vaws.policy.v1",
        "name": "probe",
        "description": "Only the probe.",
        "metrics": {"mean_tpot_ms": {"direction": "lower", "max_regression_pct": 50}},
        "gates": {"accuracy_probe_unchanged": True},
    }
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(policy), "utf-8")
    words = world.compare_words(task, *TWO, policy=str(path), accuracy_max_tokens="8", **ZERO_NOISE)
    spoken = world.cli(*words, "--accuracy-probe")

    probes = [state["launches"][0]["accuracy_probe"] for state in spoken.answer["state_results"]]
    assert probes[0] == probes[1]
    assert probes[0]["usage"]["completion_tokens"] == 8
    gates = {row["name"]: row["verdict"] for row in spoken.answer["judgements"]}
    assert gates["accuracy_probe_unchanged"] == "passed"


def test_the_tree_is_held_against_a_second_comparison(world: World, task: Task) -> None:
    with world.compare_later(task, "first=main", "second=endless") as command:
        run_id = task.wait_for("ready", "second")
        spoken = world.compare(task, *TWO)
        assert world.cli("run-cancel", run_id).answer["status"] == "cancelled"
        command.wait(60)

    assert (spoken.code, spoken.answer["error"]["code"]) == (3, "tree_locked")
    assert str(world.repo) in spoken.answer["error"]["message"]


def test_a_comparison_takes_the_place_of_a_service_that_has_ended(world: World, task: Task) -> None:
    fixed = ("--context-file", task.context_file)
    env = ("--extra-env", "VAWS_SIM_NOTE=kept")
    started = world.cli("serve-start", *fixed, "--model", world.facts["model"], "--devices", "6", *env)
    assert started.answer["status"] == "ready", started.answer
    execution_id = started.answer["execution_id"]
    alive = world.compare(task, *TWO, execution_id=execution_id, **ZERO_NOISE)
    assert (alive.code, alive.answer["error"]["code"]) == (3, "execution_alive")
    assert world.cli("serve-stop", *fixed).code == 0

    spoken = world.compare(task, *TWO, execution_id=execution_id, **ZERO_NOISE)
    assert spoken.code == 0, spoken.answer
    assert spoken.answer["devices"] == [{"logic": "6"}]
    assert spoken.answer["config"]["env"] == {"VAWS_SIM_NOTE": "kept"}


@pytest.mark.parametrize("_number", range(EQUALS))
def test_equal_states_are_not_said_to_differ(world: World, task: Task, _number: int) -> None:
    spoken = world.compare(
        task, "one=main", "other=main", order="interleaved", rounds="4", policy="latency-5pct", **ZERO_NOISE
    )

    assert spoken.code == 0, spoken.answer
    assert spoken.answer["verdict"] != "failed"
    effect = {row["metric"]: row["effect"] for row in spoken.answer["effects"]}["mean_tpot_ms"]
    assert effect["launches"] == [4, 4]
    assert effect["low_pct"] < effect["high_pct"]


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    """A process of somebody else."""
    with subprocess.Popen(["sleep", "120"]) as process:
        yield process
        process.kill()


def test_somebody_else_on_the_devices_marks_the_launch(
    world: World, task: Task, stranger: "subprocess.Popen[bytes]"
) -> None:
    words = world.compare_words(task, *TWO, devices="7", policy="latency-5pct", **ZERO_NOISE)
    run_id = world.cli(*words, "--wait-s", "0").answer["run_id"]
    task.wait_for("bench", "first")
    ticks = int(Path(f"/proc/{stranger.pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()[19])
    holder = {"pid": stranger.pid, "start_ticks": ticks, "memory_mb": 5000}
    folder = Path(world.facts["root"]) / "devices" / "7"
    (folder / f"{stranger.pid}.json").write_text(json.dumps(holder), "utf-8")
    until(lambda: any(event["phase"] == "stop" for event in task.events()), 30, "the service is stopped")
    stranger.kill()
    waited = world.cli("run-wait", run_id)

    answer = waited.answer["result"]
    first, second = (state["launches"][0] for state in answer["state_results"])
    assert (first["contaminated"], second["contaminated"]) == (True, False)
    assert f"pid {stranger.pid}" in first["contamination"][0]
    assert any("contaminated" in warning for warning in answer["warnings"])
    gates = {row["name"]: row["verdict"] for row in answer["judgements"]}
    assert gates["no_contaminated_launch"] == "failed"


def test_a_comparison_that_waits_for_its_devices_says_so_and_goes_on(world: World, task: Task) -> None:
    fixed = ("--context-file", task.context_file)
    hold = world.cli("npu-hold", *fixed, "--devices", "4", "--duration", "5m")
    assert hold.code == 0, hold.answer
    run_id = world.cli(*world.compare_words(task, *TWO, devices="4", **ZERO_NOISE), "--wait-s", "0").answer["run_id"]
    queued = until(lambda: [event for event in task.events() if event["phase"] == "queued"], 30, "it is queued")
    assert hold.answer["execution_id"] in json.dumps(queued[0])
    assert world.cli("npu-hold", *fixed, "--release", hold.answer["execution_id"]).code == 0

    waited = world.cli("run-wait", run_id)
    assert waited.answer["result"]["devices"] == [{"logic": "4"}]
    assert waited.code == 0


def test_a_data_set_that_is_not_there_is_named_before_anything_starts(world: World, task: Task) -> None:
    spoken = world.compare(task, *TWO, fixed_dataset_path="/data/absent.jsonl", **ZERO_NOISE)
    assert (spoken.code, spoken.answer["error"]["code"]) == (1, "dataset_missing")
    assert "/data/absent.jsonl" in spoken.answer["error"]["message"]
    assert task.executions == []


def test_a_data_set_that_is_changed_between_launches_is_noticed(world: World, task: Task, tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text('{"prompt": "one two three"}\n' * 4, "utf-8")
    words = world.compare_words(task, "first=main", "second=slow-decode", fixed_dataset_path=str(file))
    begun = world.cli(*words, "--fixed-output-len", "8", "--wait-s", "0")
    task.wait_for("stopped", "first")
    file.write_text('{"prompt": "four"}\n' * 4, "utf-8")
    done = world.cli("run-wait", begun.answer["run_id"])
    assert done.answer["result"]["error"]["code"] == "fixed_dataset_differs", done.answer

"""A comparison that is killed at any moment goes on with its first open launch."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from flow_world import SMALL_BENCH, Json, Task, World, signal_run, until

# VAWS_KILLS=40 kills at that many moments; three are enough for everyday use.
KILLS = int(os.environ.get("VAWS_KILLS", "3"))
LONGEST_S = 9.0
ARGUMENTS = {"runs": "1", "warmup_runs": "0", "order": "interleaved", "rounds": "2"}


def finished_launches(run: Path) -> dict[str, Json]:
    """Launches that count, by file name."""
    found = {path.name: json.loads(path.read_text("utf-8")) for path in (run / "launches").glob("*.json")}
    return {name: record for name, record in found.items() if record["status"] == "ok"}


def kill_after(world: World, task: Task, delay_s: float, *words: str) -> Path:
    """Start a comparison, or go on with one, and kill its process after a while; return its directory."""
    before = len(task.runs)
    begun = world.cli(*words, "--wait-s", "0")
    assert begun.answer["status"] == "running", begun.answer
    run = until(lambda: task.runs[before:], 10, "the run is there")[0]
    until(lambda: json.loads((run / "run.json").read_text("utf-8"))["pid"], 10, "the run's process is known")
    time.sleep(delay_s)
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, AssertionError):  # it may have ended by then
        signal_run(run, signal.SIGKILL)
    until(lambda: world.cli("run-status", run.name).answer["state"] in ("interrupted", "finished"), 10, "it is dead")
    return run


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_comparison_killed_twice_at_random_moments_is_resumed_to_its_end(world: World, task: Task, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - moments, not secrets
    words = world.compare_words(task, "first=main", "second=slow-decode", **ARGUMENTS)
    first = kill_after(world, task, chance.uniform(0, LONGEST_S), *words)
    kept = finished_launches(first)
    state = world.cli("run-status", first.name).answer
    if state["state"] == "finished" and state["status"] == "ok":
        refused = world.cli("bench-compare", "--context-file", task.context_file, "--resume", first.name)
        assert refused.answer["error"]["code"] == "resume_finished"
        return
    resume = ("bench-compare", "--context-file", task.context_file, "--resume")
    second = kill_after(world, task, chance.uniform(0, LONGEST_S / 2), *resume, first.name)
    if world.cli("run-status", second.name).answer["status"] == "ok":
        assert len(finished_launches(second)) == 4
        return
    kept_by_both = {**kept, **finished_launches(second)}
    spoken = world.cli(*resume, second.name)

    assert (spoken.code, spoken.answer["status"]) == (0, "ok"), spoken.answer
    assert spoken.answer["resumed_from"] == second.name
    last = task.runs[-1]
    now = finished_launches(last)
    assert sorted(now) == [
        f"00{number}-{label}-default.json" for number, label in enumerate(("first", "second", "second", "first"), 1)
    ]
    assert {name: now[name] for name in kept_by_both} == kept_by_both
    assert any(warning.startswith("mixed set") for warning in spoken.answer["warnings"]) == bool(kept_by_both)
    assert [row["effect"]["launches"] for row in spoken.answer["effects"]] == [[2, 2]] * 3
    world.assert_clean()


def test_a_resumed_comparison_takes_no_other_arguments(world: World, task: Task) -> None:
    words = world.compare_words(task, "first=main", "second=endless", runs="1", warmup_runs="0")
    run = kill_after(world, task, 0.2, *words)
    spoken = world.cli("bench-compare", "--context-file", task.context_file, "--resume", run.name, "--runs", "5")
    assert (spoken.code, spoken.answer["error"]["code"]) == (2, "resume_differs")
    assert "runs" in spoken.answer["error"]["message"]
    unknown = world.cli(
        "bench-compare", "--context-file", task.context_file, "--resume", "run-20260101T000000-00000000"
    )
    assert unknown.answer["error"]["code"] == "run_unknown"
    finished = world.cli("task-finish", "--context-file", task.context_file)
    assert finished.code == 0, finished.answer


def test_secrets_have_to_be_given_again(world: World, task: Task) -> None:
    words = world.compare_words(task, "first=main", "second=endless", runs="1", warmup_runs="0")
    run = kill_after(world, task, 0.2, *words, "--extra-env", "MY_TOKEN=hunter2-in-the-open")
    resume = ("bench-compare", "--context-file", task.context_file, "--resume", run.name)
    missing = world.cli(*resume)
    assert (missing.code, missing.answer["error"]["code"]) == (3, "secret_needed")
    assert "extra_env" in missing.answer["error"]["message"]
    again = world.cli(*resume, "--extra-env", "MY_TOKEN=hunter2-in-the-open", "--wait-s", "0")
    assert again.answer["status"] == "running", again.answer
    assert world.cli("run-cancel", again.answer["run_id"]).answer["status"] == "cancelled"


def kill_in_second(world: World, task: Task, words: list[str]) -> Path:
    """Start a comparison and kill its process when the first state is measured."""
    assert world.cli(*words, "--wait-s", "0").answer["status"] == "running"
    run = task.runs[-1]
    task.wait_for("checkout", "second")
    signal_run(run, signal.SIGKILL)
    until(lambda: world.cli("run-status", run.name).answer["state"] == "interrupted", 10, "it is dead")
    return run


def test_a_preset_that_was_changed_meanwhile_is_not_gone_on_with(world: World, task: Task, tmp_path: Path) -> None:
    preset = tmp_path / "small.json"
    written = {"bench_args": list(SMALL_BENCH), "serve_args": ["--max-num-seqs", "8"], "runs": 1, "warmup_runs": 0}
    preset.write_text(json.dumps(written), "utf-8")
    words = ["bench-compare", "--context-file", task.context_file, "--model", world.facts["model"]]
    words += ["--state", "first=main", "--state", "second=slow-decode", "--preset", str(preset)]
    run = kill_in_second(world, task, words)
    preset.write_text(json.dumps({**written, "serve_args": ["--max-num-seqs", "2"]}), "utf-8")
    resume = ("bench-compare", "--context-file", task.context_file, "--resume", run.name)
    refused = world.cli(*resume)
    assert refused.answer["error"]["code"] == "resume_differs", refused.answer
    assert "serve_args" in refused.answer["error"]["message"]
    preset.write_text(json.dumps(written), "utf-8")
    done = world.cli(*resume)
    assert (done.code, done.answer["status"]) == (0, "ok"), done.answer


def test_another_vllm_under_the_second_half_is_not_gone_on_with(world: World, task: Task) -> None:
    def vllm(*words: str) -> str:
        argv = ["git", "-C", str(world.repo.parent / "vllm"), "-c", "user.name=a", "-c", "user.email=a@b.invalid"]
        return subprocess.run([*argv, *words], capture_output=True, text=True, timeout=30, check=True).stdout.strip()

    run = kill_in_second(world, task, world.compare_words(task, "first=main", "second=slow-decode"))
    before = vllm("rev-parse", "HEAD")
    vllm("commit", "-q", "--allow-empty", "-m", "another")
    try:
        refused = world.cli("bench-compare", "--context-file", task.context_file, "--resume", run.name)
    finally:
        vllm("reset", "-q", "--hard", before)
    assert (refused.code, refused.answer["error"]["code"]) == (3, "runtime_differs"), refused.answer
    assert "vllm tree" in refused.answer["error"]["message"]

"""A regression is narrowed down to the commit that brought it."""

import json
import signal
from collections.abc import Iterator

import pytest
from flow_world import SMALL_BENCH, Task, World, signal_run, until

COMMITS, FIRST_BAD = 6, 4


@pytest.fixture
def branch(world: World) -> Iterator[str]:
    """Six commits on top of main, the fourth of which makes every token 40 % slower."""
    stream = ""
    for number in range(1, COMMITS + 1):
        content = json.dumps({"decode_scale": 1.4 if number >= FIRST_BAD else 1.0})
        stream += "commit refs/heads/steps\n"
        stream += f"committer Sim <sim@example.invalid> {1767999999 + number} +0000\n"
        stream += f"data 6\nStep {number}\n"
        stream += "from refs/heads/main^0\n" if number == 1 else ""
        stream += f"M 100644 inline vllm_ascend/simulation.json\ndata {len(content)}\n{content}\n"
        stream += f"M 100644 inline step.txt\ndata 1\n{number}\n\n"
    world.git("fast-import", "--quiet", stdin=stream)
    yield "steps"
    world.git("branch", "-D", "steps")


def words(world: World, task: Task, good: str, bad: str) -> list[str]:
    fixed = ["bench-bisect", "--context-file", task.context_file, "--model", world.facts["model"]]
    load = [*SMALL_BENCH[:5], "16", *SMALL_BENCH[6:]]
    measured = ["--bench-args", " ".join(load), "--runs", "1", "--warmup-runs", "0", "--rounds", "1"]
    return [*fixed, *measured, "--good", good, "--bad", bad, "--threshold", "15"]


def test_the_commit_of_a_regression_is_found(world: World, task: Task, branch: str) -> None:
    spoken = world.cli(*words(world, task, "main", branch))

    answer = spoken.answer
    assert (spoken.code, answer["status"]) == (0, "ok"), answer
    assert answer["first_bad"]["sha"] == world.git("rev-parse", f"{branch}~{COMMITS - FIRST_BAD}")
    assert answer["first_bad"]["subject"] == f"Step {FIRST_BAD}"
    assert 15 < answer["regression_pct"] < 60
    assert answer["first_bad"]["regression_pct"] == pytest.approx(answer["regression_pct"], abs=15)
    assert "against the commit before it" in answer["summary"]
    assert answer["commits"] == COMMITS
    assert 2 <= len(answer["steps"]) <= 3
    world.assert_tree_untouched()


def test_equal_ends_have_nothing_to_find(world: World, task: Task, branch: str) -> None:
    spoken = world.cli(*words(world, task, "main", f"{branch}~3"))
    assert (spoken.code, spoken.answer["status"]) == (0, "no_regression"), spoken.answer
    assert (spoken.answer["steps"], spoken.answer["suspects"]) == ([], [])


def test_a_good_commit_that_is_no_ancestor_is_refused(world: World, task: Task, branch: str) -> None:
    spoken = world.cli(*words(world, task, branch, "slow-decode"))
    assert spoken.answer["error"]["code"] == "not_an_ancestor"
    assert task.executions == []


def test_a_killed_search_is_resumed(world: World, task: Task, branch: str) -> None:
    begun = world.cli(*words(world, task, "main", branch), "--wait-s", "0")
    run_id = begun.answer["run_id"]
    until(lambda: any(event["phase"] == "bisect" for event in task.events()), 40, "both ends are measured")
    (run,) = task.runs
    signal_run(run, signal.SIGKILL)
    until(lambda: world.cli("run-status", run_id).answer["state"] == "interrupted", 10, "it is dead")
    kept = {path.name: path.read_bytes() for path in (run / "launches").glob("*.json")}

    spoken = world.cli("bench-bisect", "--context-file", task.context_file, "--resume", run_id)
    assert (spoken.code, spoken.answer["status"]) == (0, "ok"), spoken.answer
    assert spoken.answer["first_bad"]["subject"] == f"Step {FIRST_BAD}"
    assert spoken.answer["resumed_from"] == run_id
    assert len(kept) >= 2
    again = {path.name: path.read_bytes() for path in (task.runs[-1] / "launches").glob("*.json")}
    assert {name: again[name] for name in kept} == kept
    world.assert_clean()

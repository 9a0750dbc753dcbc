"""The main job: two states compared, over MCP and on the command line."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from flow_world import Json, Task, World
from mcp import Client

Connect = Callable[[], AbstractAsyncContextManager[Client]]

STATES = ("baseline=main", "candidate=slow-decode")
# Long enough that 10 % of the time per token stands out of what a busy machine adds.
LOAD = (
    *("--dataset-name", "random", "--random-input-len", "32", "--random-output-len", "64"),
    *("--num-prompts", "8", "--max-concurrency", "4", "--ignore-eos"),
)
ROW_FIELDS = {
    "state",
    "case",
    "mean_tpot_ms",
    "output_throughput",
    "spec_decode_acceptance_rate",
    "delta_tpot_ms_vs_first",
    "delta_tpot_pct_vs_first",
    "delta_output_throughput_pct_vs_first",
}


def answer_of(result: Any) -> Json:
    return json.loads(result.content[0].text)


def check_comparison(answer: Json, task: Task) -> None:
    assert (answer["schema"], answer["status"], answer["outcome"]) == ("vaws.bench_compare.v1", "ok", "success")
    assert answer["simulated"] is True
    assert answer["task_id"] == task.task_id
    assert {"state_results", "config", "preset", "fixed_dataset", "warnings", "result_paths"} <= answer.keys()
    first, second = answer["comparison"]
    assert first.keys() == second.keys() == ROW_FIELDS
    assert (first["state"], second["state"]) == ("baseline", "candidate")
    assert first["delta_tpot_pct_vs_first"] == 0
    assert 7 <= second["delta_tpot_pct_vs_first"] <= 13
    difference = second["mean_tpot_ms"] - first["mean_tpot_ms"]
    assert second["delta_tpot_ms_vs_first"] == pytest.approx(difference)
    assert second["delta_output_throughput_pct_vs_first"] < 0
    assert second["spec_decode_acceptance_rate"] is None


def check_states(answer: Json, runs: int, warmups: int) -> None:
    assert [state["label"] for state in answer["state_results"]] == ["baseline", "candidate"]
    for state in answer["state_results"]:
        assert [run["warmup"] for run in state["per_run"]] == [number < warmups for number in range(runs)]
        assert state["aggregated"]["count"] == runs - warmups
        tpot = state["aggregated"]["mean_tpot_ms"]
        assert tpot["values"] == [run["metrics"]["mean_tpot_ms"] for run in state["per_run"][warmups:]]
        assert tpot["mean"] == pytest.approx(sum(tpot["values"]) / len(tpot["values"]))
    assert all(Path(path).stat().st_size > 0 for path in answer["result_paths"])


def check_files(answer: Json, task: Task) -> None:
    (run,) = task.runs
    assert {path.name for path in (run / "states").iterdir()} == {"baseline.json", "candidate.json"}
    assert {Path(path) for path in answer["report_paths"].values()} == {
        run / f"report.{kind}" for kind in ("md", "html", "csv")
    }
    assert "candidate" in (run / "report.md").read_text("utf-8")
    assert "simulated" in (run / "report.html").read_text("utf-8").lower()
    assert json.loads((run / "run.json").read_text("utf-8"))["state"] == "finished"


@pytest.mark.asyncio
async def test_an_agent_compares_two_states_over_mcp(mcp: Connect, world: World, task: Task) -> None:
    told: list[tuple[float, float | None, str]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message or ""))

    arguments = world.arguments(task, *STATES, bench_args=list(LOAD), runs=3, warmup_runs=1)
    async with mcp() as client:
        result = await client.call_tool("bench_compare", arguments, progress_callback=listen)
        assert world.vllm() == {}
    answer = answer_of(result)

    assert not result.is_error
    assert result.structured_content == answer
    check_comparison(answer, task)
    check_states(answer, runs=3, warmups=1)
    check_files(answer, task)
    numbers = [progress for progress, _total, _message in told]
    assert numbers == sorted(set(numbers))
    assert len(numbers) > 10
    assert told[-1][0] == pytest.approx(told[-1][1] or 0, abs=0.1)
    for label in ("baseline", "candidate"):
        assert any(f"{label}: first token" in message for *_numbers, message in told)
        assert any(f"{label}: run 3 of 3: TPOT" in message for *_numbers, message in told)
    world.assert_clean()


def test_a_person_compares_two_states_on_the_command_line(world: World, task: Task) -> None:
    spoken = world.compare(task, *STATES, bench_args=" ".join(LOAD), runs="2", warmup_runs="1")

    assert spoken.code == 0
    check_comparison(spoken.answer, task)
    check_states(spoken.answer, runs=2, warmups=1)
    check_files(spoken.answer, task)
    assert {"phase", "message", "progress", "total"} <= spoken.progress[0].keys()
    assert {event["state"] for event in spoken.progress if "state" in event} == {"baseline", "candidate"}
    numbers = [event["progress"] for event in spoken.progress]
    assert numbers == sorted(numbers)
    assert spoken.progress[-1]["progress"] == spoken.progress[-1]["total"]
    world.assert_clean()


def test_states_can_be_a_commit_a_pull_request_and_a_merge_base(world: World, task: Task) -> None:
    sha = world.git("rev-parse", "main")
    spoken = world.compare(task, f"commit={sha}", "pull=pr:12", "base=base-of:slow-decode")

    assert spoken.code == 0
    commit, pull, base = spoken.answer["state_results"]
    assert commit["sha"] == base["sha"] == sha
    assert base["base_of"] == world.git("rev-parse", "slow-decode")
    assert pull["remote"] == "origin"
    assert pull["subject"] == "[Attention] Overlap the decode step with the copy"


def test_one_state_is_measured_by_bench_run(world: World, task: Task) -> None:
    words = ("--runs", "2", "--warmup-runs", "1", "--tp", "2", "--extra-env", "MY_TOKEN=hunter2-in-the-open")
    spoken = world.cli(
        *("bench-run", "--context-file", task.context_file, "--model", world.facts["model"]),
        *("--bench-args", " ".join(LOAD), *words),
    )

    answer = spoken.answer
    assert (spoken.code, answer["status"], answer["simulated"]) == (0, "ok", True)
    assert answer["config"]["tp"] == 2
    assert answer["config"]["bench_args"] == list(LOAD)
    assert (answer["runs"], answer["warmup_runs"], answer["aggregated"]["count"]) == (2, 1, 1)
    assert answer["metrics"]["mean_tpot_ms"] == pytest.approx(10, rel=0.2)
    assert answer["metrics"]["output_throughput"] > 0
    records = [path for path in world.state_dir.rglob("*") if path.is_file() and "sim" not in path.parts]
    assert all(b"hunter2" not in path.read_bytes() for path in records)
    assert "hunter2" not in json.dumps(answer) + spoken.stderr

"""Benchmarks of an engine without a server: devices, figures, failures, and that nothing stays behind."""

import json
from pathlib import Path

import pytest
from flow_world import Spoken, Task, World

SHAPE = ("--input-len", "32", "--output-len", "8")


def bench(world: World, task: Task, command: str, *words: str) -> Spoken:
    return world.cli(command, "--context-file", task.context_file, "--model", world.facts["model"], *SHAPE, *words)


def test_latency_has_percentiles_and_output_tokens(world: World, task: Task) -> None:
    words = ("--batch-size", "4", "--num-iters", "5", "--num-iters-warmup", "1", "--tp", "2")
    spoken = bench(world, task, "bench-latency", *words)

    answer = spoken.answer
    assert (spoken.code, answer["status"], answer["kind"]) == (0, "ok", "latency"), answer
    figures = answer["metrics"]
    assert 0.08 < figures["p50_latency_s"] <= figures["p90_latency_s"] <= figures["p99_latency_s"] < 0.5
    assert figures["output_throughput"] == pytest.approx(4 * 8 / figures["avg_latency_s"])
    assert answer["details"]["iterations"] == 5
    assert len(set(answer["devices"])) == 2
    assert all(device.isdecimal() for device in answer["devices"])
    assert answer["client_version"] == "0.32.0"
    assert answer["duration_s"] > 0.5
    result, log = map(Path, answer["result_paths"])
    assert json.loads(result.read_text())["avg_latency"] == figures["avg_latency_s"]
    assert "Avg latency" in log.read_text()
    world.assert_clean()


def test_throughput_has_the_output_rate_of_the_console(world: World, task: Task) -> None:
    spoken = bench(world, task, "bench-throughput", "--num-prompts", "20", "--bench-args", "--enforce-eager")

    answer = spoken.answer
    assert (spoken.code, answer["status"], answer["kind"]) == (0, "ok", "throughput"), answer
    figures, details = answer["metrics"], answer["details"]
    assert (details["num_requests"], details["total_output_tokens"], details["total_tokens"]) == (20, 160, 800)
    assert figures["output_throughput"] == pytest.approx(figures["total_token_throughput"] * 160 / 800, rel=1e-3)
    assert len(answer["devices"]) == 1
    world.assert_clean()


def test_an_engine_that_dies_is_classified_and_leaves_nothing(world: World, task: Task) -> None:
    spoken = bench(world, task, "bench-latency", "--extra-env", "VAWS_SIM_FAULT=die_loading")

    error = spoken.answer["error"]
    assert (spoken.code, error["code"]) == (1, "bench_failed"), spoken.answer
    assert "out of memory" in error["message"]
    assert spoken.answer["exit_code"] == 1
    world.assert_clean()


def test_a_benchmark_that_takes_too_long_is_a_timeout(world: World, task: Task) -> None:
    words = ("--num-iters", "1000", "--bench-timeout", "2")
    spoken = bench(world, task, "bench-latency", *words)

    assert (spoken.code, spoken.answer["error"]["code"]) == (1, "bench_timeout"), spoken.answer
    assert spoken.answer["outcome"] == "timeout"
    world.assert_clean()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--bench-args=--num-iterations 3",), "bench_args_unknown"),
        (("--bench-args=--output-json x",), "bench_args_conflict"),
        (("--devices", "0,1"), "devices_mismatch"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    world: World, task: Task, words: tuple[str, ...], code: str
) -> None:
    spoken = bench(world, task, "bench-latency", *words)
    assert (spoken.code, spoken.answer["error"]["code"]) == (2, code), spoken.answer
    assert task.runs == []

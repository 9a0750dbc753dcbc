"""The simulated `vllm bench latency` and `vllm bench throughput` print and write what the real ones do."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from sim_box import Box, fixture_text

LATENCY = ("--batch-size", "2", "--num-iters", "5", "--num-iters-warmup", "2")
LENGTHS = ("--input-len", "16", "--output-len", "4")
THROUGHPUT = ("--dataset-name", "random", "--num-prompts", "20")


def written(box: Box, name: str) -> Any:
    return json.loads((box.root / "root" / name).read_text(encoding="utf-8"))


def figures(text: str, start: str) -> list[str]:
    """The lines of the figures, without numbers and without log lines."""
    lines = text[text.index(start) :].splitlines()
    return [re.sub(r"\d+\.\d+", "N", line) for line in lines if line and not line.startswith("(")]


def test_latency_has_the_recorded_keys_and_lines(box: Box) -> None:
    model = box.facts["model"]
    done = box.run("vllm", "bench", "latency", "--model", model, *LATENCY, *LENGTHS, "--output-json", "l.json")
    assert done.returncode == 0, done.stderr
    result = written(box, "l.json")
    recorded = json.loads(fixture_text("live_vllm_0.32/bench/results/latency.json"))
    assert list(result) == list(recorded)
    assert list(result["percentiles"]) == list(recorded["percentiles"])
    assert len(result["latencies"]) == 5
    assert figures(done.stdout, "Warming") == figures(fixture_text("live_vllm_0.32/bench/latency.stdout"), "Warming")
    assert "Bench iterations: 100%|██████████| 5/5" in done.stderr
    assert box.titles() == [title for title in box.titles() if "VLLM" not in title]


def test_throughput_has_the_recorded_keys_and_lines(box: Box) -> None:
    words = (*THROUGHPUT, "--random-input-len", "64", "--random-output-len", "4", "--output-json", "t.json")
    done = box.run("vllm", "bench", "throughput", "--model", box.facts["model"], *words)
    assert done.returncode == 0, done.stderr
    result = written(box, "t.json")
    assert list(result) == list(json.loads(fixture_text("live_vllm_0.32/bench/results/throughput.json")))
    assert result["total_num_tokens"] == 20 * 68
    said = figures(done.stdout, "Throughput")
    assert said[0] == figures(fixture_text("live_vllm_0.32/bench/throughput.stdout"), "Throughput")[0]
    assert said[1:] == ["Total num prompt tokens:  1280", "Total num output tokens:  80"]


@pytest.mark.parametrize("words", [("latency", "--num-iterations", "3"), ("throughput", "--num-batches", "3")])
def test_flags_that_no_version_has_are_refused(box: Box, words: tuple[str, ...]) -> None:
    done = box.run("vllm", "bench", words[0], "--model", box.facts["model"], *words[1:])
    assert done.returncode == 2
    assert f"unrecognized arguments: {words[1]}" in done.stderr


def test_an_engine_that_dies_ends_the_benchmark(box: Box) -> None:
    model = box.facts["model"]
    done = box.run("vllm", "bench", "latency", "--model", model, *LATENCY, *LENGTHS, VAWS_SIM_FAULT="die_loading")
    assert done.returncode == 1
    assert "Engine core initialization failed" in done.stderr

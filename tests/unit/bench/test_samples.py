"""Distributions over single requests, as the client's own means have them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vaws_mcp.bench.parse_result import read_result
from vaws_mcp.bench.result_objects import ParseFailure
from vaws_mcp.bench.samples import Samples, read_samples

RECORDED = Path(__file__).parents[4] / "shared/fixtures/live_vllm_0.32/bench/results/serve_custom_chat_detailed.json"
DETAILED: dict[str, Any] = {
    "completed": 2,
    "output_lens": [3, 0, 1],
    "ttfts": [0.5, 0.0, 0.25],
    "itls": [[0.25, 0.75], [], []],
    "errors": ["", "refused", ""],
}


def test_failed_requests_have_no_times_and_single_tokens_no_tpot() -> None:
    assert read_samples(json.dumps(DETAILED)) == Samples([500.0, 250.0], [500.0])


def test_a_result_without_details_has_no_samples() -> None:
    assert read_samples('{"completed": 2}') == Samples([], [])
    assert read_samples(json.dumps({**DETAILED, "itls": []})) == Samples([500.0, 250.0], [])


@pytest.mark.parametrize("wrong", [{"ttfts": ["fast"]}, {"ttfts": [True]}, {"itls": [0.5]}, {"itls": [[None]]}])
def test_arrays_of_something_else_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParseFailure, match="where a number belongs"):
        read_samples(json.dumps({**DETAILED, **wrong}))


@pytest.mark.skipif(not RECORDED.exists(), reason="recorded outputs are not part of a public clone")
def test_samples_of_a_recorded_run_have_its_means() -> None:
    text = RECORDED.read_text(encoding="utf-8")
    [result], samples = read_result(text), read_samples(text)
    assert len(samples.ttft_ms) == result.completed
    assert sum(samples.ttft_ms) / len(samples.ttft_ms) == pytest.approx(result.mean_ttft_ms, rel=1e-6)
    assert sum(samples.tpot_ms) / len(samples.tpot_ms) == pytest.approx(result.mean_tpot_ms, rel=1e-3)

"""Recorded client outputs of many versions, where they are at hand beside the checkout."""

from pathlib import Path

import pytest

from vaws_mcp.bench.judge import judge_iteration
from vaws_mcp.bench.parse_console import disagreements, parse_engine_console, parse_serve_console
from vaws_mcp.bench.parse_engine import ThroughputResult, engine_metrics, engine_problems, read_engine_result
from vaws_mcp.bench.parse_metrics import Counters, growth, parse_metrics
from vaws_mcp.bench.parse_result import read_result
from vaws_mcp.bench.result_objects import ParseFailure

FIXTURES = Path(__file__).parents[4] / "shared" / "fixtures"
pytestmark = pytest.mark.skipif(not FIXTURES.is_dir(), reason="recorded outputs are not part of a public clone")

USABLE = [
    *(f"vllm_bench/{name}.json" for name in (
        "ok_0.11.0", "ok_0.16.0", "ok_0.33.0", "mc0_0.16.0", "append_result_0.16.0",
    )),
    *(f"live_vllm_0.32/bench/results/{name}.json" for name in (
        "ci_sim", "serve_chat_random", "serve_completions_random", "serve_custom", "serve_custom_chat_detailed",
        "serve_spec_ngram",
    )),
]  # fmt: skip
UNUSABLE = [
    *(f"vllm_bench/{name}.json" for name in (
        "allfail_0.11.0_rc0", "allfail_0.13.0_rc0", "allfail_0.16.0_exit0", "allfail_404_0.33.0_exit0",
        "empty_done_counts_failed_0.33.0", "half_0.13.0",
    )),
    *(f"live_vllm_0.32/bench/failures/results/{name}.json" for name in ("down", "partial", "wrong_model")),
]  # fmt: skip
FOREIGN = [
    "vllm_bench/latency_0.33.0.json",
    "vllm_bench/throughput_0.16.0.json",
    "live_vllm_0.32/bench/results/latency.json",
    "live_vllm_0.32/bench/results/throughput.json",
]


@pytest.mark.parametrize(("name", "usable"), [*((n, True) for n in USABLE), *((n, False) for n in UNUSABLE)])
def test_recorded_results_are_judged_right_at_exit_code_0(name: str, usable: bool) -> None:
    results = read_result((FIXTURES / name).read_text(encoding="utf-8"))
    verdicts = [judge_iteration(item, expected_prompts=None, exit_code=0, fresh=True).usable for item in results]
    assert verdicts == [usable] * len(results)


@pytest.mark.parametrize("name", FOREIGN)
def test_recorded_results_of_other_benchmarks_are_refused(name: str) -> None:
    with pytest.raises(ParseFailure, match=r"vllm bench (latency|throughput)"):
        read_result((FIXTURES / name).read_text(encoding="utf-8"))


def test_every_recorded_result_is_expected_to_be_something() -> None:
    recorded = [*FIXTURES.glob("vllm_bench/*.json"), *FIXTURES.glob("live_vllm_0.32/bench/**/*.json")]
    assert {str(path.relative_to(FIXTURES)) for path in recorded} == {*USABLE, *UNUSABLE, *FOREIGN}


CONSOLES = [
    *((f"vllm_bench/{name}.console.txt", f"vllm_bench/{name}.json") for name in (
        "ok_0.11.0", "ok_0.16.0", "ok_0.33.0",
    )),
    ("vllm_bench/allfail_0.16.0.console.txt", "vllm_bench/allfail_0.16.0_exit0.json"),
    *((f"live_vllm_0.32/bench/{name}.stdout", f"live_vllm_0.32/bench/results/{name}.json") for name in (
        "serve_chat_random", "serve_completions_random", "serve_custom", "serve_custom_chat_detailed",
        "serve_spec_ngram",
    )),
    ("live_vllm_0.32/bench/failures/partial_fail.stdout", "live_vllm_0.32/bench/failures/results/partial.json"),
    ("live_vllm_0.32/bench/failures/wrong_model.stdout", "live_vllm_0.32/bench/failures/results/wrong_model.json"),
]  # fmt: skip


@pytest.mark.parametrize(("console", "file"), CONSOLES)
def test_recorded_consoles_agree_with_their_files(console: str, file: str) -> None:
    said = parse_serve_console((FIXTURES / console).read_text(encoding="utf-8"))
    [result] = read_result((FIXTURES / file).read_text(encoding="utf-8"))
    assert len(said.figures) >= 14
    assert disagreements(said, result) == []
    rates = (said.figures.get("spec_decode_acceptance_rate"), result.spec_decode_acceptance_rate)
    assert rates == (None, None) or rates[0] == pytest.approx(rates[1], abs=1e-4)


@pytest.mark.parametrize("kind", ["latency", "throughput"])
def test_recorded_benchmarks_of_engines_are_usable(kind: str) -> None:
    folder = FIXTURES / "live_vllm_0.32/bench"
    console = parse_engine_console((folder / f"{kind}.stdout").read_text(encoding="utf-8"))
    result = read_engine_result((folder / f"results/{kind}.json").read_text(encoding="utf-8"), console)
    assert engine_problems(result) == []
    assert console.version == "0.32.0"
    if isinstance(result, ThroughputResult):
        assert None not in engine_metrics(result).values()
        assert result.total_tokens == (result.total_input_tokens or 0) + (result.total_output_tokens or 0)
    else:
        assert console.avg_latency_s == result.avg_latency_s
        assert console.percentiles_s["99"] == result.p99_latency_s


@pytest.mark.parametrize(("name", "rate", "length"), [("spec_decode", 0.5, 2.5), ("spec_decode_dp2", 0.625, 2.875)])
def test_recorded_counters_give_the_rates_of_all_engines(name: str, rate: float, length: float) -> None:
    counters = parse_metrics((FIXTURES / f"metrics/{name}.prom").read_text(encoding="utf-8"))
    assert counters is not None
    found = growth(Counters({}, {}), counters)
    assert (found.acceptance_rate, found.acceptance_length) == (rate, length)

"""Recorded client outputs of many versions, where they are at hand beside the checkout."""

from pathlib import Path

import pytest

from vaws_mcp.bench.parse_result import ParseFailure, judge_iteration, read_result

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

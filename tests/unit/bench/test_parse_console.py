"""What the clients print, in our names; and whether it belongs to a result file."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.bench.parse_console import disagreements, parse_engine_console, parse_serve_console
from vaws_mcp.bench.parse_engine import (
    LatencyResult,
    ThroughputResult,
    engine_metrics,
    engine_problems,
    read_engine_result,
)
from vaws_mcp.bench.parse_result import read_result
from vaws_mcp.bench.result_objects import ParseFailure

SPEC = """---------------Speculative Decoding---------------
Acceptance rate (%):                     50.00     
Acceptance length:                       2.50      
Per-position acceptance (%):
  Position 0:                            87.50     
"""  # noqa: W291 - as the client pads it
TABLE = """Namespace(bench_type='serve', num_prompts=4, dataset_name='random', ignore_eos=True, api_key='s')
Starting main benchmark run...
============ Serving Benchmark Result ============
Successful requests:                     4
{failed}Benchmark duration (s):                  0.13
Total input tokens:                      32
Total generated tokens:                  24
Request throughput (req/s):              30.27
Output token throughput (tok/s):         181.61
Total {token} throughput (tok/s):          423.75
---------------Time to First Token----------------
Mean TTFT (ms):                          12.69
P99.9 TTFT (ms):                         13.08
"""
END = "=" * 50 + "\nMean TPOT (ms):   9.0\n"
OLD = TABLE.format(failed="", token="Token") + END
NEW = TABLE.format(failed="Failed requests:    0\n", token="token") + SPEC + END
FILE = {
    "num_prompts": 4,
    "completed": 4,
    "failed": 0,
    "duration": 0.13215,
    "total_input_tokens": 32,
    "total_output_tokens": 24,
    "request_throughput": 30.2677,
    "output_throughput": 181.6066,
    "total_token_throughput": 423.7487,
    "mean_ttft_ms": 12.6873,
}
THROUGHPUT = {
    "elapsed_time": 2.0,
    "num_requests": 4,
    "total_num_tokens": 200,
    "requests_per_second": 2.0,
    "tokens_per_second": 100.0,
}
SAID = """INFO engine
Throughput: 2.00 requests/s, 100.00 total tokens/s, 20.50 output tokens/s
Total num prompt tokens:  159
Total num output tokens:  41
"""
LATENCY = {"avg_latency": 1.5, "latencies": [1, 2], "percentiles": {"10": 1, "50": 1.5, "90": 1.9, "99": 1.99}}


@pytest.mark.parametrize("text", [OLD, NEW])
def test_the_table_of_every_version_has_our_names(text: str) -> None:
    figures = parse_serve_console(text).figures
    assert (figures["completed"], figures["output_throughput"], figures["total_token_throughput"]) == (
        4,
        181.61,
        423.75,
    )
    assert (figures["mean_ttft_ms"], figures["p99.9_ttft_ms"]) == (12.69, 13.08)
    assert "mean_tpot_ms" not in figures  # it stands after the table


def test_rates_are_fractions() -> None:
    figures = parse_serve_console(NEW).figures
    assert (figures["spec_decode_acceptance_rate"], figures["spec_decode_acceptance_length"]) == (0.5, 2.5)
    assert "spec_decode_acceptance_rate" not in parse_serve_console(OLD).figures


def test_the_last_of_several_runs_counts() -> None:
    figures = parse_serve_console(OLD + NEW.replace("181.61", "200.00")).figures
    assert figures["output_throughput"] == 200


def test_arguments_are_read_without_secrets() -> None:
    arguments = parse_serve_console(NEW).arguments
    assert arguments["dataset_name"] == "random"
    assert arguments["ignore_eos"] == "True"
    assert "api_key" not in arguments


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("vllm bench serve[0.16.0]: error: unrecognized arguments: --x 1", "0.16.0"),
        ("(EngineCore pid=1) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config", "0.32.0"),
        ("vLLM version 0.11.0rc1+empty", "0.11.0rc1+empty"),
        ("nothing", None),
    ],
)
def test_a_version_is_read_where_the_client_states_it(text: str, version: str | None) -> None:
    assert parse_serve_console(text).version == version


def test_a_table_of_the_same_run_agrees_with_its_file() -> None:
    [result] = read_result(json.dumps(FILE))
    assert disagreements(parse_serve_console(NEW), result) == []
    other = parse_serve_console(NEW.replace("181.61", "181.70"))
    [problem] = disagreements(other, result)
    assert "output_throughput 181.7" in problem


def test_the_console_adds_the_output_rate_that_no_file_holds() -> None:
    result = read_engine_result(json.dumps(THROUGHPUT), parse_engine_console(SAID))
    assert isinstance(result, ThroughputResult)
    assert (result.output_throughput, result.total_output_tokens, result.total_input_tokens) == (20.5, 41, 159)
    assert engine_problems(result) == []


def test_a_console_of_another_run_adds_nothing() -> None:
    result = read_engine_result(json.dumps(THROUGHPUT), parse_engine_console(SAID.replace("100.00", "101.00")))
    assert engine_metrics(result)["output_throughput"] is None


def test_a_console_of_before_the_output_rate_leaves_it_unknown() -> None:
    console = parse_engine_console("Throughput: 2.00 requests/s, 100.00 tokens/s\n")
    assert (console.total_token_throughput, console.output_throughput) == (100, None)


def test_latency_percentiles_come_from_the_file() -> None:
    result = read_engine_result(json.dumps(LATENCY), None)
    assert isinstance(result, LatencyResult)
    assert (result.p50_latency_s, result.p90_latency_s, result.p99_latency_s) == (1.5, 1.9, 1.99)
    assert result.iterations == 2
    assert engine_problems(result) == []


def test_the_console_of_latency_is_read() -> None:
    console = parse_engine_console("Warming up...\nAvg latency: 1.5 seconds\n99% percentile latency: 1.99 seconds\n")
    assert (console.avg_latency_s, console.percentiles_s) == (1.5, {"99": 1.99})


@pytest.mark.parametrize(
    "broken",
    [
        [1],
        {"completed": 1},
        {**LATENCY, "avg_latency": "fast"},
        {**LATENCY, "percentiles": [1]},
        {**THROUGHPUT, "tokens_per_second": True},
        {**THROUGHPUT, "model_id": 7},
    ],
)
def test_a_broken_file_is_refused(broken: object) -> None:
    with pytest.raises(ParseFailure):
        read_engine_result(json.dumps(broken), None)


def test_a_file_without_figures_is_unusable() -> None:
    assert engine_problems(read_engine_result(json.dumps({**THROUGHPUT, "tokens_per_second": 0.0}), None)) == [
        "total_token_throughput is 0, it must be above 0."
    ]


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    parse_serve_console(text)
    parse_engine_console(text)

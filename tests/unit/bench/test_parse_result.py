"""Every sample folder reads as it says; nothing that was cut is ever usable."""

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.bench.judge import judge_iteration, last_error_line, metrics
from vaws_mcp.bench.parse_result import BenchResult, read_result
from vaws_mcp.bench.result_objects import ParseFailure

SAMPLES = Path(__file__).parents[2] / "samples" / "vllm_bench"
CASES = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())
ERROR_EXAMPLE = (
    'Traceback\nValueError: first\nModuleNotFoundError: No module named "pandas"\nERROR Unclosed connector\n'
)


def read_case(case: str) -> str:
    return (SAMPLES / case / "input.txt").read_text(encoding="utf-8")


def expected_of(case: str) -> dict[str, Any]:
    return json.loads((SAMPLES / case / "expected.json").read_text(encoding="utf-8"))


READABLE = [case for case in CASES if "results" in expected_of(case)]
UNREADABLE = [case for case in CASES if "failure" in expected_of(case)]


def only(case: str) -> BenchResult:
    [result] = read_result(read_case(case))
    return result


def problems_of(result: BenchResult | None, **changed: Any) -> list[str]:
    facts: dict[str, Any] = {"expected_prompts": None, "exit_code": 0, "fresh": True, **changed}
    judgement = judge_iteration(result, **facts)
    assert judgement.usable is (not judgement.problems)
    return judgement.problems


@pytest.mark.parametrize("case", CASES)
def test_each_sample_says_where_it_comes_from(case: str) -> None:
    origin = tomllib.loads((SAMPLES / case / "origin.toml").read_text(encoding="utf-8"))
    assert set(origin) == {"vllm", "origin", "proves"}
    assert len(set(expected_of(case)) & {"results", "failure"}) == 1


@pytest.mark.parametrize("case", READABLE)
def test_readable_samples_give_the_expected_fields_and_problems(case: str) -> None:
    results = read_result(read_case(case))
    expected = expected_of(case)["results"]
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        found = result.model_dump()
        assert {name: found[name] for name in wanted["fields"]} == wanted["fields"]
        assert problems_of(result) == wanted["problems"]


@pytest.mark.parametrize("case", UNREADABLE)
def test_unreadable_samples_are_refused_with_the_reason(case: str) -> None:
    with pytest.raises(ParseFailure) as caught:
        read_result(read_case(case))
    for words in expected_of(case)["failure"]:
        assert words in caught.value.message
    assert caught.value.status == "unknown"
    assert caught.value.hint
    assert "raw_output" in caught.value.fields


@given(data=st.data())
def test_a_cut_file_is_refused_or_holds_only_whole_results(data: st.DataObject) -> None:
    text = read_case(data.draw(st.sampled_from(READABLE)))
    whole = read_result(text)
    cut = text[: data.draw(st.integers(0, len(text.rstrip()) - 1))]
    try:
        found = read_result(cut)
    except ParseFailure:
        return
    # Only between two results of an append file is a cut file whole.
    assert found == whole[: len(found)]
    assert len(found) < len(whole)


@given(st.text(max_size=200) | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(repr))
def test_alien_text_is_refused(text: str) -> None:
    with pytest.raises(ParseFailure):
        read_result(text)


@given(
    key=st.sampled_from(["completed", "output_throughput", "mean_tpot_ms", "num_prompts", "date", "request_rate"]),
    value=st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(), st.lists(st.integers())),
)
def test_a_replaced_value_is_read_refused_or_null_but_never_crashes(key: str, value: Any) -> None:
    raw = json.loads(read_case("ok"))
    raw[key] = value
    refusal, problems = "", [""]
    try:
        [result] = read_result(json.dumps(raw))
        problems = problems_of(result)
    except ParseFailure as failure:
        refusal = failure.message
    assert refusal == "" or repr(key) in refusal
    if isinstance(value, float) and math.isnan(value) and key != "date":
        assert refusal or problems


def test_deep_nesting_and_huge_numbers_are_refused() -> None:
    with pytest.raises(ParseFailure):
        read_result("[" * 100_000)
    with pytest.raises(ParseFailure, match="output_throughput"):
        read_result('{"completed": 1, "output_throughput": 1' + "0" * 400 + "}")
    with pytest.raises(ParseFailure):
        read_result('{"completed": 1' + "0" * 5000 + "}")


def test_a_byte_order_mark_is_skipped() -> None:
    assert read_result("\ufeff" + read_case("ok")) == read_result(read_case("ok"))


def test_raw_output_is_bounded_and_free_of_control_sequences() -> None:
    with pytest.raises(ParseFailure) as caught:
        read_result("\x1b[31mno json " + "x" * 100_000)
    assert caught.value.fields["raw_output"].startswith("no json")
    assert len(caught.value.fields["raw_output"]) <= 2000


def test_percentiles_go_with_their_family() -> None:
    raw = json.loads(read_case("percentiles"))
    del raw["mean_ttft_ms"]
    raw["mean_tpot_ms"] = 0.0
    assert read_result(json.dumps(raw))[0].percentiles == {"p50_ttft_ms": 12.25}


def test_positions_decide_between_percent_and_fraction_when_counts_are_missing() -> None:
    raw = json.loads(read_case("ok"))
    raw["spec_decode_acceptance_rate"] = 0.8
    for positions, rate in (([0.9, 0.7], 0.8), ([0.012, 0.004], 0.008)):
        raw["spec_decode_per_position_acceptance_rates"] = positions
        assert read_result(json.dumps(raw))[0].spec_decode_acceptance_rate == pytest.approx(rate)


@pytest.mark.parametrize(("written", "length", "rate"), [(0.9, 1.009, 0.009), (0.9, 1.9, 0.9), (0.9, None, 0.9)])
def test_a_rate_that_its_length_contradicts_is_percent(written: float, length: float | None, rate: float) -> None:
    raw = {key: value for key, value in json.loads(read_case("ok")).items() if not key.startswith("spec_decode")}
    raw |= {"spec_decode_acceptance_rate": written, "spec_decode_acceptance_length": length}
    assert read_result(json.dumps(raw))[0].spec_decode_acceptance_rate == pytest.approx(rate)


def test_positions_in_percent_become_fractions() -> None:
    raw = json.loads(read_case("spec_percent"))
    raw["spec_decode_per_position_acceptance_rates"] = [87.5, 50.0, 12.5]
    assert read_result(json.dumps(raw))[0].spec_decode_per_position_acceptance_rates == [0.875, 0.5, 0.125]


@pytest.mark.parametrize("counts", [(-1, 10), (11, 10)])
def test_impossible_token_counts_do_not_make_a_rate(counts: tuple[int, int]) -> None:
    raw = json.loads(read_case("spec_percent"))
    raw["spec_decode_accepted_tokens"], raw["spec_decode_draft_tokens"] = counts
    raw["spec_decode_acceptance_rate"] = 100.0 * counts[0] / counts[1]
    assert read_result(json.dumps(raw))[0].spec_decode_acceptance_rate is None


def test_acceptance_length_is_derived_from_the_counts() -> None:
    raw = json.loads(read_case("spec_percent"))
    del raw["spec_decode_acceptance_length"]
    assert read_result(json.dumps(raw))[0].spec_decode_acceptance_length == 2.5


def test_a_good_iteration_is_usable() -> None:
    assert problems_of(only("ok"), expected_prompts=4) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"exit_code": 1}, "The client's exit code is 1, not 0."),
        ({"exit_code": None}, "The client's exit code is unknown, not 0."),
        ({"fresh": False}, "The result file is older than the start of this iteration."),
        ({"expected_prompts": 8}, "The result is for 4 requests, 8 were asked for."),
    ],
)
def test_what_surrounds_a_good_result_can_make_it_unusable(changed: dict[str, Any], problem: str) -> None:
    assert problems_of(only("ok"), **changed) == [problem]


def test_no_result_file_is_unusable_whatever_the_exit_code() -> None:
    assert problems_of(None) == ["The client left no result file."]


def test_a_result_without_request_counts_is_unusable() -> None:
    raw = json.loads(read_case("ok"))
    raw["num_prompts"] = None
    assert "does not say how many requests" in problems_of(read_result(json.dumps(raw))[0])[0]


def test_an_empty_run_is_unusable() -> None:
    raw = json.loads(read_case("allfail"))
    raw.update(num_prompts=0, failed=0)
    assert "0 of 0 requests completed." in problems_of(read_result(json.dumps(raw))[0])


def test_metrics_have_fixed_names_and_null_for_what_is_missing() -> None:
    found = metrics(only("percentiles"))
    assert list(found)[:4] == ["output_throughput", "request_throughput", "total_token_throughput", "mean_tpot_ms"]
    assert found["p99_tpot_ms"] is None
    assert found["spec_decode_acceptance_rate"] is None
    assert list(found)[-2:] == ["p50_ttft_ms", "p99.9_tpot_ms"]
    assert metrics(only("spec_percent"))["spec_decode_acceptance_rate"] == 0.5


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        (ERROR_EXAMPLE, 'ModuleNotFoundError: No module named "pandas"'),
        ("a.b.SomeError: x\r\n  0%|  | 0/4\r100%|\n", "a.b.SomeError: x"),
        ("usage: vllm\nvllm bench serve[0.16.0]: error: unrecognized arguments: --no-such-flag 1\n",
         "vllm bench serve[0.16.0]: error: unrecognized arguments: --no-such-flag 1"),
        ("\x1b[31mValueError: red\x1b[0m\n", "ValueError: red"),
        ("ERROR Unclosed connector\n  raise ValueError(\n100%|####| 4/4\n", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_last_error_line_is_the_one_that_names_an_error(stderr: str, line: str | None) -> None:
    assert last_error_line(stderr) == line

"""Counters of a server: summed over engines, and what they grew by, also over a reset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.bench.parse_metrics import Counters, Growth, growth, parse_metrics

# The shape of `/metrics` of a server with speculative decoding and two engines.
ONE = """# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 108.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 324.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 162.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 86.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 54.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 22.0
vllm:generation_tokens_total{engine="0",model_name="m"} 270.0
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
process_cpu_seconds_total 12.5
"""
EMPTY = Counters({}, {})


def parsed(text: str) -> Counters:
    found = parse_metrics(text)
    assert found is not None
    return found


def series(name: str, **engines: float) -> str:
    return "".join(
        f'vllm:{name}{{engine="{engine[1:]}",model_name="m"}} {value}\n' for engine, value in engines.items()
    )


def test_counters_from_the_start_give_the_rates_of_the_client() -> None:
    found = growth(EMPTY, parsed(ONE))
    assert (found.drafts, found.draft_tokens, found.accepted_tokens) == (108, 324, 162)
    assert found.acceptance_rate == 0.5
    assert found.acceptance_length == 2.5
    assert found.per_position == [86 / 108, 54 / 108, 22 / 108]
    assert found.generation_tokens == 270
    assert found.reset is False


def test_gauges_are_summed_over_engines() -> None:
    assert parsed(ONE).gauges == {"running": 3.0}


def test_engines_are_added_up() -> None:
    before = parsed(series("spec_decode_num_draft_tokens_total", e0=30, e1=90) + series("x", e0=1))
    after = parsed(
        series("spec_decode_num_draft_tokens_total", e0=60, e1=150)
        + series("spec_decode_num_accepted_tokens_total", e0=15, e1=30)
    )
    found = growth(before, after)
    assert (found.draft_tokens, found.accepted_tokens, found.acceptance_rate) == (90, 45, 0.5)


def test_a_counter_that_fell_counts_from_its_reset_and_is_marked() -> None:
    before = parsed(series("generation_tokens_total", e0=1000, e1=10))
    found = growth(before, parsed(series("generation_tokens_total", e0=40, e1=25)))
    assert (found.generation_tokens, found.reset) == (55, True)


def test_nothing_drafted_has_no_rate() -> None:
    text = series("spec_decode_num_draft_tokens_total", e0=7) + series("spec_decode_num_accepted_tokens_total", e0=3)
    text += series("spec_decode_num_drafts_total", e0=3)
    found = growth(parsed(text), parsed(text))
    assert found.draft_tokens == 0
    assert (found.acceptance_rate, found.acceptance_length, found.per_position) == (None, None, None)


def test_what_is_not_counted_is_unknown_and_not_zero() -> None:
    found = growth(EMPTY, parsed(series("generation_tokens_total", e0=5)))
    assert (found.draft_tokens, found.prompt_tokens, found.requests) == (None, None, None)
    assert Growth().as_json()["draft_tokens"] is None


@pytest.mark.parametrize("text", ["", "process_cpu_seconds_total 1\n", "<html>no</html>", 'vllm:x{a="b"} 1\n'])
def test_a_server_that_does_not_count_is_told_from_one_at_zero(text: str) -> None:
    assert parse_metrics(text) is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "many", ""])
def test_a_value_that_is_no_number_is_left_out(value: str) -> None:
    assert parse_metrics(f"vllm:generation_tokens_total{{}} {value}\n") is None


def test_labels_may_hold_anything_and_names_come_with_or_without_total() -> None:
    label = 'model_name="a}\\" b,{c",engine="0"'
    found = parsed(f"vllm:generation_tokens_total{{{label}}} 5 1700000000000\nvllm:prompt_tokens 3\n")
    assert found.series == {"generation_tokens": {label: 5.0}, "prompt_tokens": {"": 3.0}}


@pytest.mark.parametrize("positions", [("1", "2"), ("0", "2")])
def test_rates_by_position_need_every_position(positions: tuple[str, ...]) -> None:
    rows = [f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{p}"}} 1\n' for p in positions]
    assert growth(EMPTY, parsed("".join(rows) + "vllm:spec_decode_num_drafts_total 2\n")).per_position is None


def test_progress_changes_with_tokens_and_requests_only() -> None:
    other = ONE.replace("12.5", "99").replace("1.7e+09", "1.8e+09")
    assert parsed(ONE).progress == parsed(other).progress
    assert parsed(ONE).progress != parsed(ONE.replace("270.0", "271.0")).progress


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    parse_metrics(text)

"""The client's figures held against what was asked for and what the service counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from vaws_mcp.bench.client import ClientOutcome
from vaws_mcp.bench.client_check import check_client, contradictions, result_missing
from vaws_mcp.bench.parse_metrics import Growth
from vaws_mcp.bench.parse_result import BenchResult

RESULT = BenchResult(
    num_prompts=4,
    completed=4,
    failed=0,
    total_output_tokens=100,
    total_input_tokens=40,
    spec_decode_acceptance_rate=0.5,
)
ARGS = ("--dataset-name", "random", "--random-output-len", "25", "--ignore-eos")
COUNTED = Growth(generation_tokens=101, draft_tokens=200, accepted_tokens=101, drafts=100, accepted_at=[60, 41])


def test_an_iteration_has_what_was_asked_for_and_achieved() -> None:
    checked = check_client(RESULT, ClientOutcome([], counted=COUNTED), ARGS)
    assert checked.warnings == []
    assert checked.facts["requests"] == {"asked": 4, "completed": 4, "failed": 0}
    assert checked.facts["tokens"] == {"output_asked": 100, "output": 100, "input": 40}
    assert checked.facts["service_counted"]["acceptance_rate"] == 0.505


def test_too_few_tokens_are_a_warning() -> None:
    short = RESULT.model_copy(update={"total_output_tokens": 90})
    [warning] = check_client(short, ClientOutcome([]), ARGS).warnings
    assert "asked for 100 tokens and got 90" in warning


@pytest.mark.parametrize(
    ("counted", "words"),
    [
        (Growth(generation_tokens=80), "service 80"),
        (Growth(generation_tokens=100, draft_tokens=100, accepted_tokens=70), "it is 0.700"),
        (Growth(generation_tokens=100, reset=True), "fell while"),
    ],
)
def test_counters_that_say_otherwise_are_named(counted: Growth, words: str) -> None:
    [found] = contradictions(RESULT, counted)
    assert words in found


@pytest.mark.parametrize(
    ("requests", "more", "warned"), [(4, (), False), (6, (), False), (7, (), True), (7, ("--num-warmups", "3"), False)]
)
def test_requests_of_somebody_else_are_named(requests: int, more: tuple[str, ...], warned: bool) -> None:
    counted = Growth(generation_tokens=100, requests=requests)
    warnings = check_client(RESULT, ClientOutcome([], counted=counted), (*ARGS, *more)).warnings
    assert any("somebody else" in warning for warning in warnings) == warned


def test_a_client_that_is_silent_about_drafts_is_named() -> None:
    silent = RESULT.model_copy(update={"spec_decode_acceptance_rate": None})
    [found] = contradictions(silent, COUNTED)
    assert "drafted 200 tokens" in found


@pytest.mark.parametrize("counted", [None, Growth(), Growth(generation_tokens=99.5), Growth(draft_tokens=0)])
def test_what_the_service_does_not_count_contradicts_nothing(counted: Growth | None) -> None:
    assert contradictions(RESULT, counted) == []


@pytest.mark.parametrize(
    ("outcome", "code", "kind"),
    [
        (ClientOutcome([], stalled="nothing moved for 120 s"), "bench_stalled", "timeout"),
        (ClientOutcome([], timed_out=True, timeout_s=60), "bench_timeout", "timeout"),
        (ClientOutcome([], signal_name="SIGKILL"), "bench_killed", "failed"),
    ],
)
def test_a_client_that_did_not_end_by_itself_is_a_failure(outcome: ClientOutcome, code: str, kind: str) -> None:
    failure = outcome.failure(Path("/log"))
    assert failure is not None
    assert (failure.code, failure.outcome, failure.layer) == (code, kind, "remote_workload")
    assert failure.hint
    assert failure.fields.keys() == {"exit_code", "console_tail", "stderr_tail"}


def test_a_client_that_ended_by_itself_is_judged_by_its_result() -> None:
    assert ClientOutcome([], exit_code=1).failure(Path("/log")) is None


def test_secrets_are_in_no_log_and_no_evidence() -> None:
    outcome = ClientOutcome(["vllm", "--header", "Authorization=Bearer abcdefgh1234"], err="ValueError: TOKEN=abc123\n")
    failure = result_missing(outcome, Path("/log"))
    said = f"{outcome.log_text()}{failure.message}{failure.fields}"
    assert "abc123" not in said
    assert "abcdefgh1234" not in said

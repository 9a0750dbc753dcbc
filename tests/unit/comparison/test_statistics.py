"""From launches to effects, quality and a verdict."""

from typing import Any

import pytest
from launch_records import interleaved, launch

from vaws_mcp.comparison.deltas import compare
from vaws_mcp.comparison.operations import summary_of
from vaws_mcp.comparison.states import state_result
from vaws_mcp.comparison.statistics import changed_answers, effects_of, judged, quality
from vaws_mcp.presets.policies import Policy, load_policy


def policy(**gates: Any) -> Policy:
    whole = load_policy("latency-5pct")
    return whole.model_copy(update={"gates": whole.gates.model_copy(update=gates)})


def test_each_state_case_and_metric_has_an_effect_with_its_interval() -> None:
    rows = effects_of(interleaved(4, 20, 22))
    assert [row.metric for row in rows] == ["mean_tpot_ms", "output_throughput", "mean_ttft_ms"]
    effect = rows[0].effect
    assert effect.launches == (4, 4)
    assert effect.df == 5
    assert effect.low_pct is not None
    assert effect.high_pct is not None
    assert effect.low_pct < 10.05 < effect.high_pct
    assert effect.advised_rounds


def test_one_launch_a_state_has_a_change_and_no_interval() -> None:
    (row, *_rest) = effects_of([launch(1, "a", 20, 21), launch(2, "b", 22, 23)])
    assert row.effect.pct == pytest.approx(10, abs=1)
    assert row.effect.low_pct is None
    assert row.effect.iteration_spread_pct


def test_a_clear_regression_fails_and_equal_states_pass() -> None:
    assert judged("p", policy(), interleaved(8, 20, 23)).verdict == "failed"
    assert judged("p", policy(), interleaved(8, 20, 20)).verdict == "passed"


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"contaminated": True}, "failed"),
        ({"contaminated": None}, "inconclusive"),
        ({"native": {"changed": True}}, "failed"),
        ({"native": None}, "inconclusive"),
    ],
)
def test_a_gate_that_breaks_or_is_unknown_keeps_equal_states_from_passing(change: dict[str, Any], verdict: str) -> None:
    launches = interleaved(8, 20, 20)
    launches[2] = launches[2].model_copy(update=change)
    assert launches[2].label == "b"
    assert judged("p", policy(), launches).verdict == verdict


def test_failed_requests_are_counted_and_unknown_ones_stay_unknown() -> None:
    first, other = launch(1, "a", 20), launch(2, "b", 20)
    assert quality([first], [other]).failed_requests == 0
    other.per_run[0]["requests"]["failed"] = 2
    assert quality([first], [other]).failed_requests == 2
    other.per_run[0]["requests"] = None
    assert quality([first], [other]).failed_requests is None


def test_a_probe_with_another_text_is_a_change() -> None:
    same, other = {"text_sha256": "1"}, {"text_sha256": "2"}
    first = launch(1, "a", 20, accuracy_probe=same)
    assert quality([first], [launch(2, "b", 20, accuracy_probe=same)]).probe_changed is False
    changed = launch(2, "b", 20, accuracy_probe=other)
    assert quality([first], [changed]).probe_changed is True
    assert quality([first], [launch(2, "b", 20)]).probe_changed is None
    (sentence,) = changed_answers([first, changed])
    assert "b" in sentence


def test_a_fall_of_the_acceptance_rate_is_a_drop_and_a_rise_is_none() -> None:
    def drafting(number: int, label: str, rate: float) -> Any:
        record = launch(number, label, 20)
        record.per_run[0]["metrics"]["spec_decode_acceptance_rate"] = rate
        return record

    assert quality([drafting(1, "a", 0.8)], [drafting(2, "b", 0.7)]).acceptance_drop == pytest.approx(0.1)
    assert quality([drafting(1, "a", 0.7)], [drafting(2, "b", 0.8)]).acceptance_drop == 0
    assert quality([launch(1, "a", 20)], [launch(2, "b", 20)]).acceptance_drop == 0
    assert quality([drafting(1, "a", 0.7)], [launch(2, "b", 20)]).acceptance_drop is None


def test_the_summary_says_the_estimate_that_its_interval_is_of_and_not_the_drift() -> None:
    wobble = (1.0, 1.001, 0.9995, 1.0005)
    drifting = [launch(n, "ab"[n > 8], 20 * 1.01**n * wobble[n % 4]) for n in range(1, 17)]
    rows, effects = compare(drifting), effects_of(drifting)
    plain, effect = rows[1].delta_tpot_pct_vs_first, effects[0].effect
    assert plain is not None
    assert plain > 7
    assert effect.pct is not None
    assert abs(effect.pct) < 1
    said = summary_of(rows, effects)
    assert f"TPOT {effect.pct:+.1f} % (95 %: {effect.low_pct:+.1f} to {effect.high_pct:+.1f} %)" in said
    assert f"throughput {effects[1].effect.pct:+.1f} % (95 %:" in said


def test_drafts_of_which_the_client_is_silent_leave_the_acceptance_unknown() -> None:
    first, other = launch(1, "a", 20), launch(2, "b", 20)
    assert quality([first], [other]).acceptance_drop == 0.0
    other.per_run[0]["service_counted"] = {"draft_tokens": 200}
    assert quality([first], [other]).acceptance_drop is None


@pytest.mark.parametrize(
    ("native", "flags"),
    [
        ({"changed": False, "unverified": False}, set()),
        ({"changed": True, "unverified": False}, {"native_input_changed"}),
        ({"changed": None, "unverified": True}, {"native_input_unverified"}),
    ],
)
def test_a_state_says_that_it_did_not_pass_the_native_gate(native: dict[str, Any], flags: set[str]) -> None:
    found = state_result([launch(1, "a", 20), launch(2, "a", 20, native=native)])
    assert {name for name in found if name.startswith("native_input")} == flags

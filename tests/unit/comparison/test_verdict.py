import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.comparison.verdict import (
    Judgement,
    MeasuredLaunch,
    Quality,
    cannot_pass,
    judge_gates,
    judge_metric,
    judge_metrics,
    overall,
)
from vaws_mcp.core.failures import Refused
from vaws_mcp.numeric.effect import Effect, Point, state_effect
from vaws_mcp.presets.loading import shipped_names
from vaws_mcp.presets.policies import Gates, MetricRule, load_policy

LOWER_5 = MetricRule(direction="lower", max_regression_pct=5)
HIGHER_5 = MetricRule(direction="higher", max_regression_pct=5)
LOWER_3 = MetricRule(direction="lower", max_regression_pct=3)


def effect(change_pct: float, rounds: int, noise: float = 0.005, seed: int = 1) -> Effect:
    """Return the effect of launches in alternating order with a little noise."""
    rng = random.Random(seed)  # noqa: S311 - a model
    sides: tuple[list[Point], list[Point]] = ([], [])
    position = 0
    for number in range(rounds):
        for state in (0, 1) if number % 2 == 0 else (1, 0):
            value = 40 * math.exp(rng.gauss(0, noise)) * (1 + change_pct / 100 * state)
            sides[state].append(Point(position, [value], number))
            position += 1
    return state_effect(*sides, threshold_pct=3)


@pytest.mark.parametrize(
    ("rule", "change", "rounds", "verdict"),
    [
        (LOWER_5, 10, 4, "failed"),
        (LOWER_5, 0, 4, "passed"),
        (LOWER_5, -10, 4, "passed"),
        (HIGHER_5, -10, 4, "failed"),
        (HIGHER_5, 10, 4, "passed"),
        (LOWER_5, 10, 3, "inconclusive"),
        (LOWER_5, 10, 1, "inconclusive"),
        (LOWER_3, 0, 4, "inconclusive"),
        (LOWER_3, 10, 4, "failed"),
        (LOWER_3, 0, 8, "passed"),
    ],
)
def test_the_verdict_of_a_clear_case(rule: MetricRule, change: float, rounds: int, verdict: str):
    assert judge_metric("tpot", rule, effect(change, rounds)).verdict == verdict


def test_a_noisy_metric_can_fail_but_not_pass():
    rule = MetricRule(direction="lower", max_regression_pct=5, max_cv=0.01)
    clear = judge_metric("tpot", rule, effect(60, 8, noise=0.05))
    equal = judge_metric("tpot", rule, effect(-20, 8, noise=0.05))
    assert clear.verdict == "failed"
    assert equal.verdict == "inconclusive"
    assert "max_cv" in equal.reason


def test_an_undecided_metric_says_how_many_rounds_would_do():
    found = judge_metric("tpot", LOWER_3, effect(1, 8, noise=0.03))
    assert found.verdict == "inconclusive"
    assert found.advised_rounds


@given(st.lists(st.sampled_from(["passed", "failed", "inconclusive"]), max_size=6))
def test_any_failed_wins_and_nothing_unknown_passes(verdicts: list[str]):
    found = overall([Judgement.model_validate({"name": "x", "verdict": item, "reason": ""}) for item in verdicts])
    if "failed" in verdicts:
        assert found == "failed"
    elif verdicts and set(verdicts) == {"passed"}:
        assert found == "passed"
    else:
        assert found == "inconclusive"


@given(st.lists(st.one_of(st.none(), st.just(math.nan), st.just(math.inf), st.just(0.0)), max_size=8))
def test_a_missing_or_unreal_value_never_passes(values: list[float | None]):
    launches = [MeasuredLaunch(number, number, {"mean_tpot_ms": [value]}) for number, value in enumerate(values)]
    policy = load_policy("latency-5pct")
    judgements, _ = judge_metrics(policy, launches, launches)
    assert {item.verdict for item in judgements} == {"inconclusive"}


def test_every_gate_that_is_asked_and_not_known_is_inconclusive():
    gates = Gates(accuracy_probe_unchanged=True, max_acceptance_drop=0.02)
    assert [item.verdict for item in judge_gates(gates, Quality())] == ["inconclusive"] * 5
    good = Quality(0, probe_changed=False, acceptance_drop=0.0, native_inputs_changed=False, contaminated_launches=0)
    assert {item.verdict for item in judge_gates(gates, good)} == {"passed"}


@pytest.mark.parametrize(
    "bad",
    [
        {"failed_requests": 1},
        {"probe_changed": True},
        {"acceptance_drop": 0.03},
        {"acceptance_drop": math.nan},
        {"native_inputs_changed": True},
        {"contaminated_launches": 2},
    ],
)
def test_one_broken_gate_fails_even_with_one_launch(bad: dict[str, float]):
    gates = Gates(accuracy_probe_unchanged=True, max_acceptance_drop=0.02)
    good = Quality(0, probe_changed=False, acceptance_drop=0.0, native_inputs_changed=False, contaminated_launches=0)
    judged = judge_gates(gates, good._replace(**bad))
    assert [item.verdict for item in judged].count("failed") == 1
    assert overall(judged) == "failed"


def test_every_shipped_policy_loads_and_names_metrics_that_exist():
    from vaws_mcp.bench.parse_result import BenchResult

    for name in shipped_names("policies"):
        assert set(load_policy(name).metrics) <= set(BenchResult.model_fields)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"metrics": {}}, "metrics"),
        ({"metrics": {"mean_tpot_ms": {"direction": "lower", "max_regression_pct": -1}}}, "max_regression_pct"),
        ({"metrics": {"mean_tpot_ms": {"direction": "down", "max_regression_pct": 3}}}, "direction"),
        (
            {"metrics": {"mean_tpot_ms": {"direction": "lower", "max_regression_pct": 3, "min_launches": 2}}},
            "min_launches",
        ),
        ({"gates": {"failed_request": 0}}, "failed_request"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused_with_the_field(tmp_path: Path, change: dict[str, object], word: str):
    whole = {
        "schema": "vaws.policy.v1",
        "name": "mine",
        "description": "mine",
        "metrics": {"mean_tpot_ms": {"direction": "lower", "max_regression_pct": 3}},
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**whole, **change}))
    with pytest.raises(Refused, match=word):
        load_policy(str(path))


@pytest.mark.parametrize(
    ("name", "rounds", "probe", "words"),
    [
        ("latency-5pct", 4, False, []),
        ("latency-5pct", 2, False, ["4 launches"]),
        ("latency-3pct", 8, True, []),
        ("latency-3pct", 4, False, ["8 launches", "accuracy_probe"]),
    ],
)
def test_a_run_that_cannot_pass_says_so_before_it_begins(name: str, rounds: int, probe: bool, words: list[str]):
    found = cannot_pass(load_policy(name), rounds, probe=probe)
    assert len(found) == len(words)
    assert all(word in sentence for word, sentence in zip(words, found, strict=True))

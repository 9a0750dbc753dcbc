import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.numeric.effect import Point, state_effect
from vaws_mcp.numeric.power import advised_rounds, power_of

VALUES = st.floats(min_value=1e-6, max_value=1e9)
ANYTHING = st.one_of(st.none(), st.floats(), st.just(0.0), st.just(-1.0))


def alternating(first: list[float], other: list[float]) -> tuple[list[Point], list[Point]]:
    """Return launches in forward, backward order."""
    sides: tuple[list[Point], list[Point]] = ([], [])
    position = 0
    for number, pair in enumerate(zip(first, other, strict=True), 1):
        for state in (0, 1) if number % 2 else (1, 0):
            sides[state].append(Point(position, [pair[state]], number))
            position += 1
    return sides


def test_the_estimate_and_its_interval_are_those_of_the_textbook_when_there_is_no_drift():
    first, other = alternating([100.0, 102.0, 98.0, 100.0], [110.0, 109.0, 111.0, 110.0])
    effect = state_effect(first, other)
    ratio = math.exp(
        sum(math.log(point.values[0] or 0) for point in other) / 4
        - sum(math.log(point.values[0] or 0) for point in first) / 4
    )
    assert effect.pct == pytest.approx((ratio - 1) * 100)
    assert effect.df == 5
    assert effect.pct is not None
    assert effect.low_pct is not None
    assert effect.high_pct is not None
    assert 5 < effect.low_pct < effect.pct < effect.high_pct < 15
    assert effect.low_pct < (effect.one_sided_low_pct or 0) < effect.pct


def test_a_pure_drift_is_called_drift_and_no_difference():
    values = [100 * 1.01**position for position in range(16)]
    first = [Point(position, [values[position]], position // 2) for position in range(16) if position % 4 in (0, 3)]
    other = [Point(position, [values[position]], position // 2) for position in range(16) if position % 4 in (1, 2)]
    effect = state_effect(first, other)
    assert effect.pct == pytest.approx(0, abs=1e-6)
    assert effect.drift_pct == pytest.approx((1.01**15 - 1) * 100)
    assert (effect.drift_p_value or 0) < 0.001


def test_one_launch_a_state_has_a_spread_of_iterations_and_no_interval():
    effect = state_effect([Point(0, [100.0, 101.0, 99.0])], [Point(1, [110.0, 111.0, 109.0])])
    assert effect.pct == pytest.approx(10, abs=0.2)
    assert effect.iteration_spread_pct == pytest.approx(1, abs=0.2)
    assert not effect.known
    assert effect.df is None


def test_a_metric_that_one_state_lacks_has_no_estimate():
    effect = state_effect([Point(0, [1.0])], [Point(1, [None, math.nan, 0.0])])
    assert effect.pct is None
    assert effect.launches == (1, 0)


def test_an_outlier_is_flagged_and_still_counts():
    rng = random.Random(3)  # noqa: S311 - a model
    first, other = alternating([100 + rng.gauss(0, 1) for _ in range(8)], [100 + rng.gauss(0, 1) for _ in range(8)])
    quiet = state_effect(first, other)
    odd = [*other[:-1], Point(other[-1].position, [150.0], other[-1].round)]
    loud = state_effect(first, odd)
    assert quiet.outliers == []
    assert loud.outliers == [other[-1].position]
    assert (loud.pct or 0) > (quiet.pct or 0) + 3


@given(st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=12), st.floats(min_value=1e-3, max_value=1e3))
def test_the_unit_of_a_metric_does_not_matter(pairs: list[tuple[float, float]], factor: float):
    plain = state_effect(*alternating([a for a, _ in pairs], [b for _, b in pairs]))
    scaled = state_effect(*alternating([a * factor for a, _ in pairs], [b * factor for _, b in pairs]))
    assert scaled.pct is not None
    assert math.log1p(scaled.pct / 100) == pytest.approx(math.log1p((plain.pct or 0) / 100), abs=1e-6)


@given(st.lists(st.tuples(st.floats(1, 1e3), st.floats(1, 1e3)), min_size=2, max_size=12))
def test_swapping_the_states_turns_the_effect_around(pairs: list[tuple[float, float]]):
    first, other = alternating([a for a, _ in pairs], [b for _, b in pairs])
    there, back = state_effect(first, other), state_effect(other, first)
    assert there.pct is not None
    assert back.pct is not None
    assert math.log1p(there.pct / 100) == pytest.approx(-math.log1p(back.pct / 100), abs=1e-9)


@given(
    st.lists(st.lists(ANYTHING, max_size=3), max_size=6),
    st.lists(st.lists(ANYTHING, max_size=3), max_size=6),
    st.booleans(),
)
def test_no_measurement_however_strange_is_an_error_or_gives_a_nan(
    first: list[list[float | None]], other: list[list[float | None]], same_place: bool
):
    sides = [
        [Point(0 if same_place else index * 2 + offset, values, index) for index, values in enumerate(side)]
        for offset, side in enumerate((first, other))
    ]
    effect = state_effect(sides[0], sides[1], threshold_pct=3)
    for name, value in effect.model_dump().items():
        if isinstance(value, float):
            assert not math.isnan(value), name


@pytest.mark.parametrize(("spread", "threshold", "rounds"), [(0.0321, 3, 8), (0.0321, 5, 4), (0.2, 0.1, None)])
def test_the_advised_rounds_are_the_fewest_that_have_the_power(spread: float, threshold: float, rounds: int | None):
    assert advised_rounds(spread, threshold, 0.9) == rounds
    if rounds is not None:
        assert power_of(rounds, spread, threshold) >= 0.9

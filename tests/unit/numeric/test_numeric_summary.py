"""Missing values stay apart from zero in every figure."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.numeric.summary import aggregate, difference, mean, median, pct_change, stddev, summarise

VALUES = st.lists(st.floats(min_value=1e-6, max_value=1e6), min_size=2, max_size=20)


@given(VALUES)
def test_figures_agree_with_the_standard_library(values: list[float]) -> None:
    assert mean(values) == pytest.approx(statistics.mean(values))
    assert median(values) == pytest.approx(statistics.median(values))
    assert stddev(values) == pytest.approx(statistics.stdev(values), abs=1e-9)


@given(VALUES, st.integers(0, 20))
def test_missing_values_change_no_figure(values: list[float], position: int) -> None:
    for missing in (None, math.nan, math.inf):
        with_gap = [*values[:position], missing, *values[position:]]
        assert (mean(with_gap), stddev(with_gap), median(with_gap)) == (mean(values), stddev(values), median(values))


@pytest.mark.parametrize("values", [[], [None], [math.nan, None]])
def test_nothing_known_is_none_not_zero(values: list[float | None]) -> None:
    assert (mean(values), stddev(values), median(values)) == (None, None, None)


def test_one_value_has_no_spread() -> None:
    assert (mean([3.0]), stddev([3.0]), stddev([3.0, None])) == (3.0, None, None)


def test_a_missing_value_stays_visible_in_its_place() -> None:
    summary = summarise([1.0, None, math.nan, 3.0])
    assert summary.values == [1.0, None, None, 3.0]
    assert (summary.mean, summary.stddev) == (2.0, pytest.approx(math.sqrt(2)))


def test_aggregate_keeps_every_metric_and_every_position() -> None:
    found = aggregate([{"a": 1.0, "b": None}, {"a": 2.0}, {"c": 5.0}])
    assert list(found) == ["a", "b", "c"]
    assert found["a"].values == [1.0, 2.0, None]
    assert (found["b"].mean, found["b"].values) == (None, [None, None, None])
    assert found["c"].values == [None, None, 5.0]
    assert aggregate([]) == {}


@pytest.mark.parametrize(
    ("new", "old", "change"),
    [
        (11.0, 10.0, 10.0),
        (9.0, 10.0, -10.0),
        (0.0, 10.0, -100.0),
        (10.0, 0.0, None),
        (10.0, -5.0, None),
        (None, 10.0, None),
        (10.0, None, None),
        (math.nan, 10.0, None),
        (10.0, math.inf, None),
    ],
)
def test_change_in_percent_of_the_old_value(new: float | None, old: float | None, change: float | None) -> None:
    assert pct_change(new, old) == (None if change is None else pytest.approx(change))


def test_difference_is_none_when_a_side_is_missing() -> None:
    assert (difference(3.0, 1.0), difference(None, 1.0), difference(1.0, math.nan)) == (2.0, None, None)

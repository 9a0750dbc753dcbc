"""Which commit to measure next, and what remains suspected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launch_records import launch

from vaws_mcp.comparison.bisect import Search, direction_of, judge, metric_of, regression_pct


def search(count: int) -> Search:
    commits = [f"c{index}" for index in range(count)]
    return Search(commits, {commits[-1]: "bad"})


@given(count=st.integers(1, 300), data=st.data())
def test_the_first_bad_commit_is_found_in_a_logarithm_of_steps(count: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(0, count - 1))
    hunt, steps = search(count), 0
    while (sha := hunt.next()) is not None:
        hunt.known[sha] = "bad" if int(sha[1:]) >= first_bad else "good"
        steps += 1
    assert hunt.suspects() == [f"c{first_bad}"]
    assert steps <= count.bit_length()


@given(count=st.integers(1, 60), data=st.data())
def test_with_commits_that_cannot_be_measured_the_first_bad_one_stays_suspected(
    count: int, data: st.DataObject
) -> None:
    first_bad = data.draw(st.integers(0, count - 1))
    skipped = data.draw(st.sets(st.integers(0, max(0, count - 2))))
    hunt = search(count)
    while (sha := hunt.next()) is not None:
        place = int(sha[1:])
        hunt.known[sha] = "skipped" if place in skipped else "bad" if place >= first_bad else "good"
    assert f"c{first_bad}" in hunt.suspects()
    assert {int(sha[1:]) for sha in hunt.suspects()[:-1]} <= skipped


def test_a_commit_is_what_it_is_nearer_to() -> None:
    values = {"good": 10.0, "bad": 12.0, "x": 10.9, "y": 11.1, "z": None}
    assert [judge(values, "good", "bad", sha) for sha in ("x", "y", "z")] == ["good", "bad", "skipped"]


@pytest.mark.parametrize(
    ("metric", "other", "pct"),
    [("mean_tpot_ms", 11.0, 10), ("output_throughput", 9.0, 10), ("output_throughput", 11.0, -10)],
)
def test_worse_is_up_for_times_and_down_for_rates(metric: str, other: float, pct: float) -> None:
    assert regression_pct(10.0, other, direction_of(metric)) == pytest.approx(pct)
    assert regression_pct(None, other, direction_of(metric)) is None


def test_launches_count_the_same_however_many_iterations_they_have() -> None:
    assert metric_of([launch(1, "a", 10), launch(2, "a", 20, 20, 20)], "mean_tpot_ms") == 15

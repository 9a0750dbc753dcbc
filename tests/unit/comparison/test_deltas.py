"""Differences are against the first state, and what was not measured stays unknown."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from vaws_mcp.comparison.deltas import compare
from vaws_mcp.comparison.models import BenchCompareRequest, State
from vaws_mcp.comparison.records import LaunchRecord, PinnedState


def launch(label: str, *runs: tuple[float | None, float | None], warmups: int = 0) -> LaunchRecord:
    rows = [
        {"run": number, "warmup": number <= warmups, "metrics": {"mean_tpot_ms": tpot, "output_throughput": rate}}
        for number, (tpot, rate) in enumerate(runs, start=1)
    ]
    return LaunchRecord(
        run_id="run-1",
        number=1,
        round=1,
        state=PinnedState(label=label, ref=label, sha="0" * 40, subject=""),
        case="default",
        status="ok",
        started_at="2026-01-01T00:00:00Z",
        ended_at="2026-01-01T00:00:00Z",
        per_run=rows,
    )


def test_the_first_state_is_the_reference_of_every_row() -> None:
    rows = compare([launch("a", (20, 100), (22, 110)), launch("b", (42, 52.5)), launch("c", (10.5, 210))])
    assert [row.state for row in rows] == ["a", "b", "c"]
    assert [row.delta_tpot_ms_vs_first for row in rows] == [0, 21, -10.5]
    assert [row.delta_tpot_pct_vs_first for row in rows] == [0, 100, -50]
    assert [row.delta_output_throughput_pct_vs_first for row in rows] == [0, -50, 100]


def test_warmups_do_not_count() -> None:
    (row,) = compare([launch("a", (1000, 1), (20, 100), (22, 110), warmups=1)])
    assert (row.mean_tpot_ms, row.output_throughput) == (21, 105)


@pytest.mark.parametrize(
    ("first", "other"), [((None, None), (20, 100)), ((20, 100), (None, None)), ((0, 0), (20, 100))]
)
def test_a_difference_to_nothing_is_unknown_and_not_zero(
    first: tuple[float | None, float | None], other: tuple[float | None, float | None]
) -> None:
    row = compare([launch("a", first), launch("b", other)])[1]
    assert row.delta_tpot_pct_vs_first is None
    assert row.delta_output_throughput_pct_vs_first is None
    assert row.spec_decode_acceptance_rate is None


def request(**fields: Any) -> BenchCompareRequest:
    return BenchCompareRequest.model_validate({"model": "m", **fields})


def test_states_are_labels_and_refs_in_order() -> None:
    states = request(state=["base=v1.0", "new=feature/a=b"]).states()
    assert states == [State(label="base", ref="v1.0"), State(label="new", ref="feature/a=b")]


@pytest.mark.parametrize("states", [["main"], ["=x"], ["a="], ["a/b=x"], ["-a=x"], ["a=x", "A=y"], ["a" * 41 + "=x"]])
def test_states_that_cannot_be_told_apart_or_named_are_refused(states: list[str]) -> None:
    with pytest.raises(ValidationError):
        request(state=states)

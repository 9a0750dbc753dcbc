"""Every answer has the same frame, and its exit code says the same as its words."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.envelope import Stopwatch, exit_code, failed, succeeded
from vaws_mcp.core.failures import Blocked, Cancelled, CleanupFailed, Failure, NeedsInput, Refused, TimedOut
from vaws_mcp.core.models import Result

FRAME = {"schema", "status", "outcome", "summary", "warnings", "refs", "started_at", "duration_ms"}


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(state_dir=tmp_path, resources=Resources())


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"outcome": "success", "status": "ok"}, 0),
        ({"outcome": "success", "status": "running"}, 0),
        ({"outcome": "success", "status": "ok", "verdict": "passed"}, 0),
        ({"outcome": "success", "status": "ok", "verdict": "failed"}, 5),
        ({"outcome": "failed", "status": "failed"}, 1),
        ({"outcome": "failed", "status": "unknown"}, 1),
        ({"outcome": "timeout", "status": "timeout"}, 1),
        ({"outcome": "failed", "status": "refused"}, 2),
        ({"outcome": "needs_input", "status": "needs_input"}, 3),
        ({"outcome": "blocked", "status": "blocked"}, 3),
        ({"outcome": "failed", "status": "cleanup_failed"}, 4),
        ({"outcome": "success", "status": "cleanup_failed"}, 4),
        ({"outcome": "cancelled", "status": "cancelled"}, 130),
        ({}, 1),
    ],
)
def test_exit_codes(answer: dict[str, Any], code: int) -> None:
    assert exit_code(answer) == code


@pytest.mark.parametrize(
    ("failure", "status", "outcome", "code"),
    [
        (Failure("c", "m"), "failed", "failed", 1),
        (Refused("c", "m"), "refused", "failed", 2),
        (NeedsInput("c", "m"), "needs_input", "needs_input", 3),
        (Blocked("c", "m"), "blocked", "blocked", 3),
        (TimedOut("c", "m"), "timeout", "timeout", 1),
        (Cancelled("c", "m"), "cancelled", "cancelled", 130),
        (CleanupFailed("c", "m"), "cleanup_failed", "failed", 4),
    ],
)
def test_each_failure_has_its_status_and_exit_code(failure: Failure, status: str, outcome: str, code: int) -> None:
    answer = failed("op", failure, Stopwatch(), None)
    assert answer.keys() >= FRAME
    assert (answer["status"], answer["outcome"], exit_code(answer)) == (status, outcome, code)
    assert answer["error"].keys() == {"layer", "code", "phase", "message", "hint", "retry_safe"}


def test_refusals_are_the_callers_and_safe_to_repeat() -> None:
    for failure in (Refused("c", "m"), NeedsInput("c", "m")):
        assert (failure.layer, failure.retry_safe) == ("caller", True)


def test_a_failure_keeps_its_fields_and_masks_secrets() -> None:
    failure = Failure("c", "first API_KEY=abc123\nsecond", fields={"env": {"HF_TOKEN": "abc123"}}).carrying(part=1)
    answer = failed("op", failure, Stopwatch(), None)
    assert answer["summary"] == "first API_KEY=***"
    assert answer["part"] == 1
    assert "abc123" not in str(answer)


def test_carrying_does_not_replace_what_is_there() -> None:
    assert Failure("c", "m", fields={"a": 1}).carrying(a=2, b=3).fields == {"a": 1, "b": 3}


def test_success_has_the_frame_in_order_and_no_empty_hint(ctx: Context) -> None:
    ctx.warn("careful")
    ctx.warn("careful")
    answer = succeeded("op", Result(summary="done"), Stopwatch(), ctx)
    assert list(answer)[:4] == ["schema", "status", "outcome", "summary"]
    assert answer.keys() == FRAME
    assert answer["schema"] == "vaws.op.v1"
    assert answer["warnings"] == ["careful"]
    assert datetime.fromisoformat(answer["started_at"]).utcoffset() is not None


def test_a_hint_and_simulation_are_said(ctx: Context) -> None:
    ctx.simulated = True
    answer = succeeded("op", Result(hint="call again"), Stopwatch(), ctx)
    assert (answer["hint"], answer["simulated"]) == ("call again", True)

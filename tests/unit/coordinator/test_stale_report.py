"""What the laptop makes of a cleanup's answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from vaws_mcp.coordinator.stale import clean_around, find_stale
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import CleanupFailed
from vaws_mcp.endpoint.channel import Answer
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.models import EndpointConfig

ENGINE = {"pid": 50, "ppid": 1, "uid": 0, "start_ticks": 7, "comm": "VLLM::EngineCor", "title": "VLLM::EngineCore"}
QUIET: dict[str, Any] = {
    "applied": True,
    "looked_at": 3,
    "matched": [],
    "spared": [],
    "killed": [],
    "surviving": [],
    "shared_memory": [],
}


class Place:
    """An endpoint that gives one answer and keeps the questions."""

    config = EndpointConfig(name="box", host="h")

    def __init__(self, **answer: Any) -> None:
        self.answer = {**QUIET, **answer}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def call(self, method: str, params: dict[str, Any], **_more: Any) -> Answer:
        self.asked.append((method, params))
        return Answer(self.answer, b"")

    @property
    def endpoint(self) -> Endpoint:
        return cast("Endpoint", self)


@pytest.mark.asyncio
@pytest.mark.parametrize("killed", [[], [ENGINE]])
async def test_around_a_state_stale_processes_are_ended_and_named_in_a_warning(
    tmp_path: Path, killed: list[dict[str, Any]]
) -> None:
    place = Place(killed=killed, matched=killed)
    async with Resources() as resources:
        ctx = Context(tmp_path, resources, effect="write")
        report = await clean_around(ctx, place.endpoint, "before state main")
    assert place.asked == [("stale.cleanup", {"apply": True})]
    assert [process.pid for process in report.killed] == [process["pid"] for process in killed]
    expected = "before state main: stale cleanup ended VLLM::EngineCore (pid 50) on box (h)"
    assert ctx.warnings == ([expected] if killed else [])


@pytest.mark.asyncio
async def test_a_survivor_is_a_failed_cleanup_that_keeps_the_whole_report() -> None:
    place = Place(matched=[ENGINE], surviving=[ENGINE])
    with pytest.raises(CleanupFailed) as caught:
        await find_stale(place.endpoint, apply=True)
    assert caught.value.status == "cleanup_failed"
    assert "VLLM::EngineCore (pid 50)" in caught.value.message
    assert caught.value.fields["surviving"][0]["pid"] == 50
    assert caught.value.fields["looked_at"] == 3


@pytest.mark.asyncio
async def test_a_dry_run_asks_for_nothing_else() -> None:
    place = Place(applied=False)
    await find_stale(place.endpoint, apply=False)
    assert place.asked == [("stale.cleanup", {"apply": False})]

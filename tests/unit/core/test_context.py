"""Shared resources are made once, made again when lost, and closed; progress counts steps."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.progress import ProgressEvent


@pytest.mark.asyncio
async def test_callers_at_the_same_time_share_one_resource() -> None:
    made: list[str] = []

    async def make() -> str:
        await anyio.lowlevel.checkpoint()
        made.append("made")
        return "made"

    async with Resources() as resources, anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(resources.get, "key", make, bool)
    assert len(made) == 1


@pytest.mark.asyncio
async def test_a_lost_resource_is_made_again_and_all_are_closed_in_reverse() -> None:
    closed: list[str] = []
    names = iter("ab")

    async def make() -> str:
        name = next(names)

        async def close() -> None:
            closed.append(name)

        resources.on_close(close)
        return name

    async with Resources() as resources:
        assert await resources.get("key", make, lambda _known: True) == "a"
        assert await resources.get("key", make, lambda _known: False) == "b"
    assert closed == ["b", "a"]


@pytest.mark.asyncio
async def test_progress_counts_steps_and_survives_the_round_trip(tmp_path: Path) -> None:
    events: list[ProgressEvent] = []

    async def sink(event: ProgressEvent) -> None:
        events.append(event)

    ctx = Context(state_dir=tmp_path, resources=Resources(), sink=sink, steps_total=2)
    await ctx.progress("bench", "starts", run=1, phase_note="x")
    await ctx.advance("bench", "one")
    assert [(event.progress, event.total) for event in events] == [(0, 2), (1, 2)]
    assert [ProgressEvent.from_dict(event.as_dict()) for event in events] == events

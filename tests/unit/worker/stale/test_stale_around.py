"""The cleanup of a benchmark, from the laptop's side down to real processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from stale_decoys import decoys, titled

from vaws_mcp.coordinator.stale import clean_around
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.endpoint.connect import connected
from vaws_mcp.endpoint.models import EndpointConfig


@pytest.mark.asyncio
async def test_before_a_state_an_orphaned_engine_is_ended_and_an_owned_one_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with decoys(tmp_path) as world:
        monkeypatch.setenv("VAWS_SIM_MARKER", world.marker)
        monkeypatch.setenv("HOME", str(tmp_path))
        owned = world.owned("offline.py", "VLLM::EngineCore_DP1")
        engine = world.orphan(children=1)
        async with Resources() as resources:
            ctx = Context(tmp_path, resources, effect="write")
            endpoint = await connected(ctx, EndpointConfig(name="local"))
            report = await clean_around(ctx, endpoint, "before state main")
            assert engine in [process.pid for process in report.killed]
            assert len(report.killed) == 2
            assert titled(world.marker, "VLLM::") == [owned]
            assert "before state main: stale cleanup ended" in ctx.warnings[0]
            again = await clean_around(ctx, endpoint, "after state main")
        assert again.killed == []
        assert owned in [process.pid for process in again.spared]

"""Bringing a result here over a real worker on this machine, small and large."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from vaws_mcp.bench import client
from vaws_mcp.bench.client import ClientRun, fetch_result, run_client
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.models import EndpointConfig

TEXT = json.dumps({"completed": 4, "errors": ["x" * 100] * 20})


@asynccontextmanager
async def this_machine(state_dir: Path) -> AsyncGenerator[tuple[Context, Endpoint]]:
    async with Resources() as resources:
        ctx = Context(state_dir=state_dir, resources=resources, effect="write")
        yield ctx, await connected(ctx, EndpointConfig(name="local", cann=False))


@pytest.mark.asyncio
@pytest.mark.parametrize("limit", [1 << 20, 100])
async def test_a_result_of_any_size_comes_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(client, "READ_BYTES", limit)
    remote, local = tmp_path / "remote.json", tmp_path / "here" / "local.json"
    remote.write_text(TEXT, encoding="utf-8")
    async with this_machine(tmp_path / "state") as (ctx, endpoint):
        assert await fetch_result(ctx, endpoint, str(remote), local) == TEXT
        assert await fetch_result(ctx, endpoint, str(tmp_path / "none.json"), local) is None
    assert local.read_text(encoding="utf-8") == TEXT


@pytest.mark.asyncio
async def test_a_client_that_nobody_watches_has_its_output_and_exit_code(tmp_path: Path) -> None:
    run = ClientRun(["sh", "-c", "echo said; echo loud >&2; exit 3"], {}, timeout_s=30)
    async with this_machine(tmp_path) as (_ctx, endpoint):
        ended = await run_client(endpoint, run, None)
    assert (ended.exit_code, ended.out, ended.err) == (3, "said\n", "loud\n")
    assert (ended.stalled, ended.timed_out, ended.counted) == (None, False, None)


@pytest.mark.asyncio
async def test_a_client_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async with this_machine(tmp_path) as (_ctx, endpoint):
        ended = await run_client(endpoint, ClientRun(["sleep", "60"], {}, timeout_s=0.3), None)
    assert ended.timed_out
    failure = ended.failure(tmp_path / "log")
    assert failure is not None
    assert failure.code == "bench_timeout"

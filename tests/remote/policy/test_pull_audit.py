"""A pull only reads from the endpoint and writes here: the one is allowed everywhere, the other leaves a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint
from vaws_mcp.workspace.artifacts.operations import artifact_pull


@pytest.mark.asyncio
async def test_a_pull_from_a_read_only_endpoint_works_and_is_noted(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    save_endpoint(state_dir, EndpointConfig(name="local", read_only=True))
    (tmp_path / "far").write_text("new")
    arguments = {"endpoint": "local", "remote_path": str(tmp_path / "far"), "local_path": str(tmp_path / "near")}
    async with Resources() as resources:
        answer = await invoke(artifact_pull, arguments, Context(state_dir, resources))
    assert answer["outcome"] == "success", answer
    assert (tmp_path / "near").read_text() == "new"
    (line,) = (state_dir / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["operation"] == "artifact_pull"

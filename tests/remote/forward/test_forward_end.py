"""A forward ends with its process, also when it never came to serve."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.workspace.forward.operations import remote_forward


@pytest.mark.asyncio
async def test_a_forward_that_is_opened_and_at_once_closed_leaves_no_listener(home: Path, tmp_path: Path) -> None:
    async with Resources() as resources:
        # A bound for waiting means a caller that does not hold the call until it is interrupted.
        ctx = Context(tmp_path / ".vaws-local", resources, wait_s=1.0)
        answer = await invoke(remote_forward, {"endpoint": "local", "remote_port": 9}, ctx)
    assert answer["outcome"] == "success", answer
    port = int(answer["forwards"][0]["url"].rstrip("/").rsplit(":", 1)[1])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0

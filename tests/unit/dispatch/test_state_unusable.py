"""A state directory that cannot be written costs the audit line, never the answer of work that was done."""

from __future__ import annotations

from pathlib import Path

import pytest

from vaws_mcp.catalog import BY_NAME
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.dispatch import invoke as front
from vaws_mcp.dispatch.invoke import invoke


@pytest.mark.asyncio
async def test_the_answer_survives_an_audit_log_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_words: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(front, "audit", full)
    ctx = Context(state_dir=tmp_path, resources=Resources())
    answer = await invoke(BY_NAME["task_create"], {"slug": "x"}, ctx)
    assert answer["outcome"] == "success"
    assert "No space left on device" in answer["warnings"][-1]


@pytest.mark.asyncio
async def test_a_state_directory_that_is_a_file_is_a_local_failure_that_names_it(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    state_dir.write_text("not a directory")
    ctx = Context(state_dir=state_dir, resources=Resources())
    answer = await invoke(BY_NAME["task_create"], {"slug": "x"}, ctx)
    assert answer["error"]["code"] == "local_file_error"
    assert answer["error"]["layer"] == "local"
    assert str(state_dir) in answer["error"]["hint"]
    assert state_dir.read_text() == "not a directory"

"""Arguments that nobody means are refused as such, and never as a defect of ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vaws_mcp.catalog import BY_NAME
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.dispatch.invoke import invoke

Answer = dict[str, Any]
HUGE = 10**30


async def call(state_dir: Path, name: str, **arguments: Any) -> Answer:
    async with Resources() as resources:
        return await invoke(BY_NAME[name], {"endpoint": "local", **arguments}, Context(state_dir, resources))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("remote_bash", {"command": "true", "timeout_ms": HUGE}),
        ("remote_bash", {"command": "true", "unknown": [{"deep": -HUGE}]}),
        ("remote_read", {"file_path": "/etc/hosts", "offset": HUGE}),
        ("job_tail", {"job_id": "job-x", "offset": -HUGE}),
        ("artifact_push", {"local_path": "a\0b", "remote_path": "/nowhere"}),
    ],
)
async def test_what_cannot_be_meant_is_refused(tmp_path: Path, name: str, arguments: Answer) -> None:
    answer = await call(tmp_path, name, **arguments)
    assert answer["status"] == "refused", answer
    assert answer["error"]["code"] in ("argument_invalid", "argument_unknown")


@pytest.mark.asyncio
async def test_a_refused_call_with_a_huge_number_leaves_an_audit_line(tmp_path: Path) -> None:
    await call(tmp_path, "remote_bash", command="true", timeout_ms=HUGE)
    (line,) = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["request"]["timeout_ms"] == "a number of 100 bits"


@pytest.mark.asyncio
async def test_bytes_of_a_command_line_that_are_no_utf8_reach_the_file(tmp_path: Path) -> None:
    path = tmp_path / "latin"
    path.write_bytes(b"caf\xe9\n")
    answer = await call(tmp_path, "remote_edit", file_path=str(path), old_string="caf\udce9", new_string="th\udce9")
    assert answer["outcome"] == "success", answer
    assert path.read_bytes() == b"th\xe9\n"


@pytest.mark.asyncio
async def test_a_directory_whose_name_is_no_utf8_can_be_worked_in(tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    answer = await call(tmp_path, "remote_bash", command="touch here", cwd=str(folder))
    assert answer["outcome"] == "success", answer
    assert (folder / "here").exists()

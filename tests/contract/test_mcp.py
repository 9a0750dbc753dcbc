"""What a client sees over MCP: the catalogue, and the same envelope from every tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_session import Session, serving

from vaws_mcp.catalog import OPERATIONS
from vaws_mcp.core.operation import Operation
from vaws_mcp.core.schema import plain_schema

FRAME = {"schema", "status", "outcome", "summary", "warnings", "refs", "started_at", "duration_ms"}
HEAVY = {"asyncssh", "matplotlib", "numpy", "jinja2", "rich", "aiohttp", "httpx", "tomlkit", "scipy"}

every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("mcp")
    with serving(folder / ".vaws-local", folder / "log") as opened:
        yield opened


@pytest.fixture(scope="module")
def tools(session: Session) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in session.ask("tools/list")["result"]["tools"]}


def test_the_tools_are_the_catalogue(tools: dict[str, dict[str, Any]]) -> None:
    assert list(tools) == [operation.name for operation in OPERATIONS]


@every_operation
def test_a_tool_says_what_its_operation_is(tools: dict[str, dict[str, Any]], operation: Operation) -> None:
    tool = tools[operation.name]
    assert (tool["title"], tool["description"]) == (operation.title, operation.description)
    assert tool["inputSchema"] == plain_schema(operation.request)
    assert tool["annotations"] == {
        "title": operation.title,
        "readOnlyHint": operation.effect == "read",
        "destructiveHint": operation.effect == "destroy",
        "idempotentHint": operation.idempotent or operation.effect == "read",
        "openWorldHint": False,
    }


@every_operation
def test_every_answer_has_the_envelope(session: Session, operation: Operation) -> None:
    result = session.call(operation.name, {})
    answer = result["structuredContent"]
    assert json.loads(result["content"][0]["text"]) == answer
    assert answer.keys() >= FRAME
    assert answer["schema"] == f"vaws.{operation.name}.v1"
    assert result["isError"] == (answer["outcome"] != "success")
    if answer["outcome"] != "success":
        assert answer["error"]["layer"] == "caller"
        assert answer["error"]["hint"]


@every_operation
def test_an_unknown_argument_is_refused_by_name(session: Session, operation: Operation) -> None:
    first = next(iter(operation.request.model_fields), "")
    answer = session.call(operation.name, {f"{first}x": "1"})["structuredContent"]
    assert (answer["status"], answer["error"]["code"]) == ("refused", "argument_unknown")
    assert f"'{first}x'" in answer["error"]["message"]
    assert not first or f"did you mean '{first}'?" in answer["error"]["message"]


def test_an_unknown_tool_is_refused_with_the_nearest(session: Session) -> None:
    result = session.call("remote_bsh", {})
    assert result["isError"]
    assert result["structuredContent"]["error"]["code"] == "tool_unknown"
    assert "remote_bash" in result["structuredContent"]["error"]["hint"]


def test_reading_leaves_no_state_behind(tmp_path: Path) -> None:
    state_dir = tmp_path / ".vaws-local"
    with serving(state_dir, tmp_path / "log") as session:
        assert session.call("task_list", {})["structuredContent"]["tasks"] == []
        assert session.call("run_list", {})["structuredContent"]["runs"] == []
    assert not state_dir.exists()


def test_starting_and_listing_loads_no_heavy_library(tmp_path: Path) -> None:
    log = tmp_path / "imports"
    with serving(tmp_path / ".vaws-local", log, "-X", "importtime") as session:
        assert session.ask("tools/list")["result"]["tools"]
    lines = [line for line in log.read_text().splitlines() if line.startswith("import time:")]
    loaded = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines}
    assert {"mcp", "vaws_mcp", "pydantic"} <= loaded  # the measurement itself works
    assert not loaded & HEAVY

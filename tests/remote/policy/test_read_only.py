"""What may not be changed is not even contacted; what is denied is named; a change leaves a line without secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.connect.places import Box
from vaws_mcp.catalog import BY_NAME
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint
from vaws_mcp.workspace.forward.operations import remote_forward

Answer = dict[str, Any]
# Nothing may be sent there, so that trying to would end as a failure to connect.
NOWHERE = EndpointConfig(name="nowhere", host="host.invalid", read_only=True)


async def call(state_dir: Path, name: str, **arguments: Any) -> Answer:
    async with Resources() as resources:
        operation = remote_forward if name == "remote_forward" else BY_NAME[name]
        return await invoke(operation, arguments, Context(state_dir, resources, wait_s=45))


def runs_of(task: Answer) -> list[Path]:
    return list(Path(task["directory"]).rglob("run-*"))


CHANGES: list[tuple[str, Answer]] = [
    ("remote_bash", {"command": "true"}),
    ("remote_write", {"file_path": "/x", "content": "x"}),
    ("remote_forward", {"remote_port": 80}),
]


@pytest.mark.parametrize(("name", "arguments"), CHANGES)
@pytest.mark.asyncio
async def test_a_read_only_endpoint_is_not_contacted_for_a_change(tmp_path: Path, name: str, arguments: Answer) -> None:
    save_endpoint(tmp_path, NOWHERE)
    answer = await call(tmp_path, name, endpoint="nowhere", **arguments)
    assert (answer["status"], answer["error"]["code"], answer["error"]["layer"]) == ("blocked", "read_only", "local")
    assert "nowhere" in answer["summary"]


@pytest.mark.asyncio
async def test_a_run_on_a_read_only_endpoint_is_not_started(tmp_path: Path) -> None:
    save_endpoint(tmp_path, NOWHERE)
    task = await call(tmp_path, "task_create", slug="t", endpoint="nowhere")
    answer = await call(tmp_path, "bench_run", context_file=task["context_file"], model="/m")
    assert answer["error"]["code"] == "read_only"
    assert [row.name for row in runs_of(task)] == []


@pytest.mark.asyncio
async def test_reading_from_a_read_only_endpoint_works(tmp_path: Path) -> None:
    save_endpoint(tmp_path, EndpointConfig(name="watched", read_only=True))
    (tmp_path / "file").write_text("text\n")
    answer = await call(tmp_path, "remote_read", endpoint="watched", file_path=str(tmp_path / "file"))
    assert answer["content"] == "text\n"


@pytest.mark.parametrize(("value", "blocked"), [("1", True), ("true", True), ("0", False), ("", False)])
@pytest.mark.asyncio
async def test_the_environment_makes_everything_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, blocked: bool
) -> None:
    monkeypatch.setenv("VAWS_READ_ONLY", value)
    answer = await call(tmp_path, "remote_write", endpoint="local", file_path=str(tmp_path / "x"), content="x")
    assert (answer["status"] == "blocked") is blocked
    assert (tmp_path / "x").exists() is not blocked
    assert (await call(tmp_path, "task_create", slug="t"))["outcome"] == "success"


def test_a_server_can_be_started_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vaws_mcp.cli.main import main
    from vaws_mcp.endpoint.policy import read_only_everywhere
    from vaws_mcp.server import stdio

    seen: list[bool] = []

    def serve() -> int:
        seen.append(read_only_everywhere())
        return 0

    monkeypatch.setattr(stdio, "serve", serve)
    monkeypatch.setenv("VAWS_READ_ONLY", "0")
    assert main(["mcp"]) == 0
    assert main(["mcp", "--read-only"]) == 0
    assert seen == [False, True]


@pytest.mark.parametrize(
    ("command", "pattern"),
    [
        ("rm -rf /", r"rm\s+-rf"),
        ("echo a; sudo reboot", r"\breboot\b"),
        ("echo a\nreboot", r"\breboot\b"),
        ("echo rebooted", None),
    ],
)
@pytest.mark.asyncio
async def test_a_denied_command_is_refused_with_its_pattern(tmp_path: Path, command: str, pattern: str | None) -> None:
    save_endpoint(tmp_path, EndpointConfig(name="careful", deny_commands=(r"rm\s+-rf", r"\breboot\b")))
    answer = await call(tmp_path, "remote_bash", endpoint="careful", command=command)
    if pattern is None:
        assert answer["stdout"] == "rebooted\n"
    else:
        assert (answer["outcome"], answer["error"]["code"]) == ("blocked", "command_denied")
        assert repr(pattern) in answer["summary"]


@pytest.mark.asyncio
async def test_a_pattern_that_is_none_is_named_with_its_entry(tmp_path: Path) -> None:
    (tmp_path / "endpoints.toml").write_text("[box]\ndeny_commands = ['fine', '(']\n")
    answer = await call(tmp_path, "remote_bash", endpoint="local", command="true")
    assert answer["error"]["code"] == "endpoints_file_invalid"
    assert "[box] deny_commands" in answer["summary"]
    assert "'('" in answer["summary"]


@pytest.mark.asyncio
async def test_every_change_leaves_a_line_without_secrets(tmp_path: Path) -> None:
    save_endpoint(tmp_path, NOWHERE)
    async with Resources() as resources:
        box = Box(Context(tmp_path, resources), "local")
        await box.bash("echo --api-key s3cr3t; curl -H 'Authorization: Bearer s3cr3tabc'", env={"HF_TOKEN": "s3cr3t"})
        await box.bash("cat", stdin="PASSWORD=s3cr3t\n")
        await box.call("remote_write", file_path=str(tmp_path / "x"), content="url = 'http://me:s3cr3t@host/'")
        await box.call("remote_write", file_path="/x", content="x", endpoint="nowhere")
        await box.call("remote_read", file_path=str(tmp_path / "x"))
    text = (tmp_path / "audit.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["operation"] for line in lines] == ["remote_bash", "remote_bash", "remote_write", "remote_write"]
    assert [line["code"] for line in lines] == [None, None, None, "read_only"]
    assert "s3cr3t" not in text
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600

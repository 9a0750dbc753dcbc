"""No text that an operation takes is executed on the way, on neither machine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from injection import SHARED, attempts, operations, payloads

from tests.connect.places import Place
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.operation import Operation
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.registry import load_endpoints, save_endpoint
from vaws_mcp.taskstore.operations import task_create
from vaws_mcp.workspace.files.operations import remote_read
from vaws_mcp.workspace.shell.operations import remote_bash

BOUND_S = 20.0
VLLM = '#!/bin/sh\necho "$0: cannot serve" >&2\nexit 1\n'
Answer = dict[str, Any]


class Target:
    """An endpoint with a task, and the file that must never appear."""

    def __init__(self, place: Place, folder: Path, resources: Resources) -> None:
        self.place = place
        self.canary = folder / "canary"
        self.resources = resources
        self.folder = folder
        self.calls = 0

    async def invoke(self, operation: Operation, arguments: Answer) -> Answer | None:
        """Call as the server does, but let runs be carried out here; None when it took too long."""
        run_dir = self.folder / "run" if operation.run_kind else None
        ctx = Context(self.place.state_dir, self.resources, wait_s=0.5, run_dir=run_dir)
        self.calls += 1
        with anyio.move_on_after(BOUND_S):
            return await invoke(operation, arguments, ctx)
        return None

    async def attack(self, operation: Operation, name: str, arguments: Answer) -> None:
        answer = await self.invoke(operation, arguments)
        what = f"{operation.name}.{name} on {self.place.kind}"
        assert not self.canary.exists(), f"{what} was executed"
        assert answer is not None, f"{what} took longer than {BOUND_S} s"
        assert answer.get("error", {}).get("code") not in ("internal_error", "worker_bug"), f"{what}: {answer}"


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own to work in: relative paths end up here."""
    (tmp_path / "away" / "run").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "away")
    return tmp_path / "away"


def make_tree(tree: Path) -> None:
    """Make a git tree with two branches."""
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "one"], ["branch", "other"]):
        tree.mkdir(exist_ok=True)
        subprocess.run(["git", "-C", tree, *who, *words], check=True, capture_output=True)


def furnish(place: Place, folder: Path) -> dict[str, Any]:
    """Name an endpoint ``target`` where everything goes on to the last step; return arguments that exist there."""
    venv, tree, file = folder / "venv" / "bin", folder / "tree", folder / "file"
    venv.mkdir(parents=True)
    (venv / "vllm").write_text(VLLM)
    (venv / "vllm").chmod(0o755)
    make_tree(tree)
    file.write_text("text\n")
    known = load_endpoints(place.state_dir)[place.kind]
    own = {"name": "target", "venv": str(venv.parent), "vllm_ascend_repo": str(tree), "vllm_repo": str(tree)}
    save_endpoint(place.state_dir, known.model_copy(update=own))
    paths = dict.fromkeys(("file_path", "path", "local_path"), str(file))
    return {"endpoint": "target", "model": str(folder), "remote_path": str(folder / "copy"), **paths}


@pytest.mark.asyncio
async def test_the_payloads_would_be_executed_by_a_shell(place: Place, away: Path) -> None:
    async with Resources() as resources:
        target = Target(place, away, resources)
        for text in payloads(target.canary):
            if not text.startswith("-"):
                for command in (f"x={text}", f"x='{text}'", f'x="{text}"'):
                    await target.invoke(remote_bash, {"endpoint": place.kind, "command": command})
                assert target.canary.exists(), text
                target.canary.unlink()


@pytest.mark.timeout(300)
@pytest.mark.asyncio
async def test_no_field_of_any_operation_is_executed(place: Place, away: Path) -> None:
    async with Resources() as resources:
        target = Target(place, away, resources)
        known = furnish(place, away)
        task = await target.invoke(task_create, {"slug": "t", "endpoint": "target"})
        assert task is not None
        known["context_file"] = task["context_file"]
        for number, text in enumerate(payloads(target.canary)):
            for operation in operations():
                for name, arguments in attempts(operation, text, **known):
                    # A run takes a second: its other fields are tried with the first text, which has all forms.
                    slow = operation.run_kind and name != "state"
                    if name not in SHARED and not (slow and number):
                        await target.attack(operation, name, arguments)
    assert target.calls > 200


@pytest.mark.asyncio
async def test_no_way_of_naming_an_endpoint_is_executed(place: Place, away: Path) -> None:
    async with Resources() as resources:
        target = Target(place, away, resources)
        for text in payloads(target.canary):
            for name, arguments in attempts(remote_read, text, endpoint=place.kind, file_path="/etc/hostname"):
                if name in SHARED:
                    await target.attack(remote_read, name, arguments)
            for endpoint in (f"{text}@127.0.0.1", f"root@{text}", f"127.0.0.1:{text}", f"ssh://{text}/"):
                await target.attack(remote_read, "endpoint", {"endpoint": endpoint, "file_path": "/etc/hostname"})
            for jump in (f"{text}@127.0.0.1:1", f"127.0.0.1:1,{text}"):
                await target.attack(remote_read, "jump", {"endpoint": "u@127.0.0.1:1", "jump": jump, "file_path": "/x"})


@pytest.mark.asyncio
async def test_variables_of_a_command_are_text(place: Place, away: Path) -> None:
    async with Resources() as resources:
        target = Target(place, away, resources)
        text = payloads(target.canary)[0]
        arguments = {"endpoint": place.kind, "command": 'printf %s "$V"', "env": {"V": text, "A\nB": text}}
        answer = await target.invoke(remote_bash, arguments)
        assert answer is not None
        assert answer["stdout"] == text
        for name in ("", "A=B", "A\0B"):
            refused = await target.invoke(remote_bash, {**arguments, "env": {name: "x"}})
            assert refused is not None
            assert refused["outcome"] == "failed"
        assert not target.canary.exists()

"""A snapshot says what a service would run with, and a diagnosis where connecting takes its time or fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.connect.places import Place, Server
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.operation import Operation
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import load_endpoints, save_endpoint
from vaws_mcp.workspace.facts.operations import context_snapshot, remote_probe

Answer = dict[str, Any]


async def ask(operation: Operation, state_dir: Path, **arguments: Any) -> Answer:
    async with Resources() as resources:
        return await invoke(operation, arguments, Context(state_dir, resources))


def git(tree: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    return subprocess.run(["git", "-C", tree, *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def make_tree(tree: Path) -> str:
    tree.mkdir()
    git(tree, "init", "-q", "-b", "main")
    (tree / "file").write_text("one")
    git(tree, "add", "file")
    git(tree, "commit", "-q", "-m", "one")
    return git(tree, "rev-parse", "HEAD")


def make_venv(venv: Path) -> Path:
    """Make a virtual environment and return where its packages lie."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (folder,) = venv.glob("lib/python3.*/site-packages")
    return folder


def state_of(folder: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.asyncio
async def test_a_snapshot_names_versions_commits_and_what_is_absent(place: Place) -> None:
    venv, tree = place.files / "venv", place.files / "vllm tree"
    folder = make_venv(venv)
    (folder / "vllm-0.27.1+empty.dist-info").mkdir()
    (folder / "vllm-0.27.1+empty.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.27.1+empty\n")
    (folder / "vllm.py").write_text("raise SystemExit('imported')")
    commit = make_tree(tree)
    (tree / "new").write_text("not committed")
    (place.files / "no tree").mkdir()
    known = load_endpoints(place.state_dir)[place.kind]
    own = {"venv": str(venv), "vllm_repo": str(tree), "vllm_ascend_repo": str(place.files / "no tree")}
    save_endpoint(place.state_dir, known.model_copy(update={"name": "versions", **own}))
    before = state_of(place.files)
    answer = await ask(context_snapshot, place.state_dir, endpoint="versions")
    assert answer["outcome"] == "success"
    assert answer["python"] == {
        "version": ".".join(map(str, sys.version_info[:3])),
        "executable": str(venv / "bin" / "python3"),
    }
    assert answer["packages"]["vllm"]["version"] == "0.27.1+empty"
    assert answer["packages"]["torch-npu"] is None
    assert answer["repos"]["vllm"] == {
        "path": str(tree),
        "commit": commit,
        "branch": "main",
        "dirty": True,
        "changes": 1,
    }
    assert "not a git repository" in answer["repos"]["vllm_ascend"]["error"]
    assert answer["hostname"] == {"name": socket.gethostname(), "in_hosts": answer["hostname"]["in_hosts"]}
    assert answer["system"]["kernel"] == os.uname().release
    assert "vllm 0.27.1+empty" in answer["summary"]
    assert state_of(place.files) == before


@pytest.mark.asyncio
async def test_a_python_that_fails_is_not_an_absent_one(tmp_path: Path) -> None:
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python3").write_text("#!/bin/sh\necho broken libpython >&2\nexit 127\n")
    (venv / "python3").chmod(0o755)
    save_endpoint(tmp_path, EndpointConfig(name="bad", venv=str(venv.parent)))
    answer = await ask(context_snapshot, tmp_path, endpoint="bad")
    assert "broken libpython" in answer["python"]["error"]
    assert answer["packages"]["torch"] == answer["python"]
    assert answer["repos"]["vllm"] is None


@pytest.mark.asyncio
async def test_a_tree_cannot_start_programs_during_a_snapshot(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    hook.chmod(0o755)
    git(tmp_path / "tree", "config", "core.fsmonitor", str(hook))
    save_endpoint(tmp_path, EndpointConfig(name="sly", vllm_repo=str(tmp_path / "tree")))
    answer = await ask(context_snapshot, tmp_path, endpoint="sly")
    assert answer["repos"]["vllm"]["dirty"] is False
    assert not (tmp_path / "canary").exists()


@pytest.mark.asyncio
async def test_a_diagnosis_times_each_phase(place: Place) -> None:
    answer = await ask(remote_probe, place.state_dir, endpoint=place.kind, diagnose=True)
    assert answer["outcome"] == "success"
    phases = [phase["phase"] for phase in answer["diagnosis"]]
    host = ["resolve", "tcp", "ssh"] if place.kind == "sshd" else []
    assert phases == [*host, "worker", "first_round_trip", "round_trip"]
    assert all(0 < phase["ms"] < 20_000 for phase in answer["diagnosis"])


@pytest.mark.asyncio
async def test_a_diagnosis_follows_jump_hosts(server: Server, tmp_path: Path) -> None:
    server.register(tmp_path, jump=server.destination)
    answer = await ask(remote_probe, tmp_path, endpoint="box", diagnose=True)
    phases = [phase["phase"] for phase in answer["diagnosis"]]
    assert phases == ["resolve", "tcp", "ssh", "tcp", "ssh", "worker", "first_round_trip", "round_trip"]


@pytest.mark.asyncio
async def test_a_diagnosis_that_fails_keeps_what_it_saw(server: Server, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    server.register(tmp_path, port=port)
    answer = await ask(remote_probe, tmp_path, endpoint="box", diagnose=True)
    assert answer["error"]["code"] == "port_closed"
    assert [phase["phase"] for phase in answer["diagnosis"]] == ["resolve", "connect"]
    assert str(port) in answer["diagnosis"][-1]["note"]
    server.register(tmp_path, python="/nowhere/python3")
    answer = await ask(remote_probe, tmp_path, endpoint="box", diagnose=True)
    assert answer["error"]["code"] == "python_missing"
    assert [phase["phase"] for phase in answer["diagnosis"]] == ["resolve", "tcp", "ssh", "worker"]

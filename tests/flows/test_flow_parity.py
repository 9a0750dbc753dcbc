"""The code on a person's machine is the code on the endpoint, by one command."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from flow_server import raw_server
from flow_world import Json, Spoken, World


def git(top: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(top), *words], capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


@pytest.fixture
def local(world: World, tmp_path: Path) -> Iterator[Path]:
    """A clone of the container's tree; the container's is put back afterwards."""
    git(tmp_path, "clone", "-q", str(world.repo), "local")
    yield tmp_path / "local"
    world.git("checkout", "-q", "-f", "main")
    world.git("clean", "-fdq")


@pytest.fixture
def context_file(world: World, local: Path) -> str:
    created = world.cli("task-create", "parity", "--endpoint", "sim", "--vllm-ascend", str(local))
    return str(created.answer["context_file"])


def sync(world: World, context_file: str, *words: str) -> Spoken:
    return world.cli("code-sync", "--context-file", context_file, *words)


def only(answer: Json) -> Json:
    (tree,) = answer["trees"]
    return dict(tree)


def test_the_endpoint_s_tree_becomes_the_local_one(world: World, local: Path, context_file: str) -> None:
    (local / "vllm_ascend/attention/attention_v1.py").write_text("CHANGED = True\n")
    (local / "vllm_ascend/new file.py").write_text("NEW = True\n")
    (local / "csrc/kernels/add_rms_norm.cpp").write_text("// changed\n")
    head = world.git("rev-parse", "HEAD")

    planned = sync(world, context_file, "--plan")
    assert (planned.code, planned.answer["status"], planned.answer["equal"]) == (0, "planned", False)
    assert world.git("rev-parse", "HEAD") == head
    changed = [
        "M csrc/kernels/add_rms_norm.cpp",
        "M vllm_ascend/attention/attention_v1.py",
        "A vllm_ascend/new file.py",
    ]
    assert only(planned.answer)["changed_files"] == changed

    done = sync(world, context_file)
    assert (done.code, done.answer["status"], done.answer["equal"]) == (0, "synced", True)
    assert done.answer["simulated"] is True
    tree = only(done.answer)
    assert tree["local_tree"] == tree["remote_tree"] == world.git("rev-parse", "HEAD^{tree}")
    assert tree["changed_files"] == changed
    assert (world.repo / "vllm_ascend/new file.py").read_text() == "NEW = True\n"
    assert done.answer["native_inputs_changed"] is True
    assert tree["native_inputs"] == ["csrc/kernels/add_rms_norm.cpp"]
    assert "runtime_prepare" in done.answer["hint"]
    assert {event["phase"] for event in done.progress} == {"send", "materialise"}
    assert git(local, "status", "--porcelain").splitlines()[0].startswith("M ")

    again = sync(world, context_file)
    assert (again.answer["status"], again.answer["native_inputs_changed"]) == ("unchanged", True)


def test_work_on_the_endpoint_is_refused_or_kept(world: World, local: Path, context_file: str) -> None:
    (local / "README.md").write_text("mine\n")
    (world.repo / "README.md").write_text("theirs\n")
    refused = sync(world, context_file)
    assert (refused.code, refused.answer["error"]["code"]) == (3, "tree_dirty")
    assert "README.md" in refused.answer["error"]["message"]
    assert (world.repo / "README.md").read_text() == "theirs\n"

    with raw_server(world.state_dir) as server:
        kept = server.call("code_sync", {"context_file": context_file, "keep_remote": True})
    assert (kept["status"], kept["equal"]) == ("synced", True)
    (row,) = only(kept)["kept"]
    assert world.git("show", f"{row['ref']}:README.md") == "theirs"
    assert (world.repo / "README.md").read_text() == "mine\n"


def test_a_task_without_a_tree_says_what_to_do(world: World) -> None:
    task = world.new_task("no-tree")
    missing = sync(world, task.context_file)
    assert (missing.code, missing.answer["error"]["code"]) == (3, "source_missing")
    assert "task-create" in missing.answer["error"]["hint"]


def test_a_service_starts_from_the_local_code_and_says_when_that_has_moved_on(
    world: World, local: Path, context_file: str
) -> None:
    fixed = {"context_file": context_file, "model": world.facts["model"], "devices": ["none"]}
    (local / "mine.py").write_text("FIRST = True\n")
    with raw_server(world.state_dir) as server:
        try:
            first = server.call("serve_start", fixed)
            assert first["status"] == "ready", first
            assert (world.repo / "mine.py").read_text() == "FIRST = True\n"

            (local / "mine.py").write_text("SECOND = True\n")
            again = server.call("serve_start", fixed)
            assert (again["reconnected"], again["status"]) == (True, "ready")
            assert any("restart=true" in warning for warning in again["warnings"])
            blocked = server.call("code_sync", {"context_file": context_file})
            assert blocked["error"]["code"] == "tree_locked"
            assert (world.repo / "mine.py").read_text() == "FIRST = True\n"

            anew = server.call("serve_start", {**fixed, "restart": True})
            assert (anew["reconnected"], anew["status"]) == (False, "ready")
            assert (world.repo / "mine.py").read_text() == "SECOND = True\n"
            assert not any("restart=true" in warning for warning in anew["warnings"])

            (local / "mine.py").write_text("THIRD = True\n")
            left = server.call("serve_start", {**fixed, "restart": True, "skip_parity": True})
            assert left["status"] == "ready"
            assert (world.repo / "mine.py").read_text() == "SECOND = True\n"
        finally:
            stopped = server.call("serve_stop", {"context_file": context_file})
    assert stopped["outcome"] == "success"

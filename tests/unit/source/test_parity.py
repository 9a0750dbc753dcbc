"""The endpoint's tree becomes what the local one is, and nobody's work is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from parity_world import World, commit_all, contents, frozen, git, new_tree, opened, shown, write

from vaws_mcp.coordinator.reservation import reserved
from vaws_mcp.coordinator.wanted import TreeUse
from vaws_mcp.endpoint.registry import load_endpoints, save_endpoint
from vaws_mcp.source.native import native_digest
from vaws_mcp.source.operations import sync_bound
from vaws_mcp.source.stash import clear_work, put_work_back, save_work
from vaws_mcp.source.tree import checkout
from vaws_mcp.taskstore.tasks import require_task
from vaws_mcp.worker.supervisor.trees import exclusive

FILES = {
    "README.md": "read me\n",
    "vllm_ascend/__init__.py": "x = 1\n",
    "csrc/op.cpp": "int f() { return 1; }\n",
    ".gitignore": "*.so\nlogs/\n",
    "old/name.py": "renamed = True\n" * 20,
    "gone.py": "gone\n",
}


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    local = new_tree(tmp_path / "local", FILES)
    git(tmp_path, "clone", "-q", str(local), "remote")
    return local, tmp_path / "remote"


def edit(local: Path) -> None:
    """Change a tree in all the ways there are."""
    write(local, {"vllm_ascend/__init__.py": "x = 2\n"})
    write(local, {"staged.py": "staged\n"})
    git(local, "add", "staged.py")
    write(local, {"a name\nwith lines.txt": "odd\n", "logs/x.log": "ignored\n", "case.TXT": "1", "Case.txt": "2"})
    Path(os.fsdecode(os.fsencode(local) + b"/caf\xe9")).write_bytes(b"latin\r\n")
    (local / "run.sh").write_text("#!/bin/sh\n")
    (local / "run.sh").chmod(0o755)
    (local / "link").symlink_to("nowhere/at all")
    (local / "README.md").chmod(0o755)
    git(local, "mv", "old/name.py", "new name.py")
    (local / "gone.py").unlink()
    (local / "empty").mkdir()
    write(local, {"vllm_ascend/lib.so": "local binary", "build/x.o": "object", "__pycache__/a.pyc": "c"})


@pytest.mark.asyncio
async def test_everything_uncommitted_travels_and_the_user_s_tree_is_untouched(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    local, remote = pair
    edit(local)
    write(remote, {"vllm_ascend/built.so": "remote binary", "logs/y.log": "theirs", "build/z.o": "theirs"})
    before = frozen(local)
    async with opened(tmp_path / "w", local, remote) as world:
        tree = await world.synced()
        assert frozen(local) == before
        assert tree["status"] == "synced"
        left = {b"vllm_ascend/lib.so", b"build/x.o", b"__pycache__/a.pyc", b"logs/x.log"}
        kept = {b"vllm_ascend/built.so", b"logs/y.log", b"build/z.o"}
        there = contents(remote)
        assert {name: there[name] for name in there if name not in kept} == {
            name: value for name, value in contents(local).items() if name not in left
        }
        assert there[b"vllm_ascend/built.so"][1] == b"remote binary"
        assert git(remote, "rev-parse", "HEAD^{tree}") == tree["local_tree"]
        assert git(remote, "status", "--porcelain") == "?? build/"
        ref = f"refs/vaws/sync/{Path(world.context_file).parent.name}"
        assert git(remote, "rev-parse", ref) == tree["commit"]
        assert git(remote, "rev-parse", "main") == git(local, "rev-parse", "main")

        again = await world.synced()
        assert (again["status"], again["changed"], again["bytes_sent"]) == ("unchanged", 0, 0)
        git(local, "checkout", "-q", "-f", "main")
        git(local, "clean", "-fdq")
        back = await world.synced()
        assert git(remote, "rev-parse", "HEAD") == git(local, "rev-parse", "HEAD") == back["commit"]


@pytest.fixture
def python38() -> str:
    found = os.environ.get("VAWS_TEST_PYTHON38") or shutil.which("python3.8")
    if not found or subprocess.run([found, "--version"], check=False, timeout=30).returncode != 0:
        pytest.skip("no Python 3.8 found; name one in VAWS_TEST_PYTHON38")
    return found


@pytest.mark.asyncio
async def test_the_oldest_python_is_enough(tmp_path: Path, pair: tuple[Path, Path], python38: str) -> None:
    local, remote = pair
    edit(local)
    write(remote, {"README.md": "theirs\n"})
    async with opened(tmp_path / "w", local, remote, python38) as world:
        endpoint = await world.endpoint()
        assert endpoint.hello["python"].startswith("3.8.")
        tree = await world.synced(keep_remote=True)
        assert len(tree["kept"]) == 1
        assert (await native_digest(endpoint, str(remote))).value is not None
        write(remote, {"README.md": "theirs\n"})
        saved = await save_work(endpoint, str(remote), "refs/vaws/stash/x", who="x")
        await clear_work(endpoint, str(remote), saved, who="x")
        await put_work_back(endpoint, str(remote), saved, who="x")
        assert (remote / "README.md").read_text() == "theirs\n"


@pytest.mark.asyncio
async def test_a_tree_that_somebody_works_in_is_left_alone(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    local, remote = pair
    write(local, {"README.md": "mine\n"})
    before = frozen(remote)
    async with opened(tmp_path / "w", local, remote) as world:
        with exclusive(str(remote), "another-run"):
            refused = await world.sync()
        assert (refused["status"], refused["error"]["code"]) == ("blocked", "tree_locked")
        assert "another-run" in refused["error"]["message"]
        assert frozen(remote) == before
        await world.synced()


@pytest.mark.asyncio
async def test_a_reservation_of_ours_that_holds_the_tree_lets_us_in(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    local, remote = pair
    write(local, {"README.md": "mine\n"})
    async with opened(tmp_path / "w", local, remote) as world:
        endpoint, ctx = await world.endpoint(), world.context()
        task = require_task(ctx, world.context_file, "the test")
        async with reserved(ctx, task, endpoint, None, [TreeUse(str(remote), "exclusive")]) as reservation:
            refused = await world.sync()
            assert refused["error"]["code"] == "tree_locked"
            (tree,) = await sync_bound(ctx, task, endpoint, reservation=reservation.execution_id)
            assert tree.equal
            await checkout(endpoint, str(remote), tree.local_head, who="x", reservation=reservation.execution_id)
        assert (remote / "README.md").read_text() == FILES["README.md"]


@pytest.mark.asyncio
async def test_both_trees_are_brought_by_one_call(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    local, remote = pair
    vllm = new_tree(tmp_path / "vllm", {"vllm/__init__.py": "1\n", "csrc/ops.h": "1\n"})
    async with opened(tmp_path / "w", local, remote) as world:
        git(tmp_path, "clone", "-q", str(vllm), "w/vllm remote")
        made = await world.call("task_create", slug="both", endpoint="box", vllm_ascend=str(local), vllm=str(vllm))
        write(local, {"README.md": "mine\n"})
        write(vllm, {"vllm/__init__.py": "2\n"})
        world.context_file = made["context_file"]
        answer = await world.sync(repo="both")
        assert [tree["status"] for tree in answer["trees"]] == ["synced", "synced"]
        assert answer["equal"]
        assert contents(tmp_path / "w/vllm remote") == contents(vllm)
        again = await world.sync(repo="both")
        assert again["status"] == "unchanged"


@pytest.mark.asyncio
async def test_local_commits_travel_thin(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    local, remote = pair
    write(local, {"big.bin": os.urandom(300_000).hex()})
    commit_all(local)
    async with opened(tmp_path / "w", local, remote) as world:
        first = await world.synced()
        write(local, {"README.md": "changed\n"})
        commit_all(local)
        second = await world.synced()
        assert first["bytes_sent"] > 300_000
        assert second["bytes_sent"] < 2000
        assert git(remote, "rev-parse", "HEAD") == git(local, "rev-parse", "HEAD")
        assert git(remote, "fsck", "--connectivity-only") == ""


@pytest.mark.asyncio
async def test_a_large_pack_has_a_channel_of_its_own(
    tmp_path: Path, pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    local, remote = pair
    (local / "big.bin").write_bytes(os.urandom(6 << 20))
    async with opened(tmp_path / "w", local, remote) as world:
        assert (await world.synced())["bytes_sent"] > 6 << 20
    assert contents(remote) == contents(local)
    assert list((tmp_path / ".vaws/packs").iterdir()) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["unstaged", "staged", "untracked", "only staged", "deleted", "mode"])
async def test_the_endpoint_s_own_work_is_refused_by_name_and_kept_when_asked(
    tmp_path: Path, pair: tuple[Path, Path], kind: str
) -> None:
    local, remote = pair
    write(local, {"README.md": "mine\n", "fresh.py": "mine"})
    name = "theirs.py" if kind == "untracked" else "README.md"
    if kind == "deleted":
        (remote / name).unlink()
    elif kind == "mode":
        (remote / name).chmod(0o755)
    else:
        write(remote, {name: "theirs\n"})
    if kind in ("staged", "only staged"):
        git(remote, "add", name)
    if kind == "only staged":
        write(remote, {name: FILES[name]})
    before = frozen(remote)
    async with opened(tmp_path / "w", local, remote) as world:
        refused = await world.sync()
        assert (refused["status"], refused["error"]["code"]) == ("blocked", "tree_dirty")
        assert name in refused["error"]["message"]
        assert frozen(remote) == before
        planned = await world.sync(plan=True)
        assert planned["status"] == "planned"
        assert name in planned["trees"][0]["remote_changes"]
        assert frozen(remote) == before

        tree = await world.synced(keep_remote=True)
        (kept,) = tree["kept"]
        assert kept["ref"].startswith("refs/vaws/kept/")
        expected = {"deleted": None, "mode": FILES["README.md"], "only staged": FILES["README.md"]}
        assert shown(remote, f"{kept['ref']}:{name}") == expected.get(kind, "theirs\n")
        if kind == "only staged":
            assert git(remote, "show", f"{kept['ref']}^2:{name}") == "theirs"
        if kind == "untracked":
            assert not (remote / name).exists()


@pytest.mark.asyncio
async def test_an_ignored_file_in_the_way_is_never_overwritten(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    local, remote = pair
    git(local, "rm", "-q", "--cached", "gone.py")
    write(local, {".gitignore": "logs/\n", "data.bin": "local", "vllm_ascend/sub/a.py": ""})
    write(remote, {"data.bin": "theirs"})
    (remote / ".git/info/exclude").write_text("data.bin\n")
    before = frozen(remote)
    async with opened(tmp_path / "w", local, remote) as world:
        refused = await world.sync()
        assert (refused["status"], refused["error"]["code"]) == ("blocked", "would_overwrite")
        assert "data.bin" in refused["error"]["message"]
        assert frozen(remote) == before


@pytest.mark.asyncio
@pytest.mark.parametrize("keep", [False, True])
async def test_a_merge_under_way_is_left_alone(tmp_path: Path, pair: tuple[Path, Path], *, keep: bool) -> None:
    local, remote = pair
    git(remote, "checkout", "-q", "-b", "other")
    write(remote, {"fresh.py": "other"})
    commit_all(remote)
    git(remote, "checkout", "-q", "main")
    git(remote, "merge", "-q", "--no-ff", "--no-commit", "other")
    if not keep:  # nothing differs, and yet it is not finished
        git(remote, "reset", "-q", "--", "fresh.py")
        (remote / "fresh.py").unlink()
    write(local, {"README.md": "mine\n"})
    before = frozen(remote)
    async with opened(tmp_path / "w", local, remote) as world:
        refused = await world.sync(keep_remote=keep)
        assert (refused["status"], refused["error"]["code"]) == ("blocked", "tree_unfinished")
        assert "merge" in refused["error"]["message"]
        assert frozen(remote) == before
        assert (remote / ".git/MERGE_HEAD").exists()


@pytest.mark.asyncio
async def test_linked_worktrees_will_do_on_both_sides(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    local, remote = pair
    git(local, "worktree", "add", "-q", str(tmp_path / "local two"), "-b", "topic")
    git(remote, "worktree", "add", "-q", "--detach", str(tmp_path / "remote two"))
    edit(tmp_path / "local two")
    before = frozen(local), frozen(remote)
    async with opened(tmp_path / "w", tmp_path / "local two", tmp_path / "remote two") as world:
        tree = await world.synced()
        assert git(world.remote, "rev-parse", "HEAD^{tree}") == tree["local_tree"]
    assert frozen(local) == before[0]
    assert frozen(remote)[1:] == before[1][1:]


@pytest.mark.asyncio
async def test_a_commit_that_no_ref_leads_to_is_kept(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    local, remote = pair
    git(remote, "checkout", "-q", "--detach")
    write(remote, {"theirs.py": "only here"})
    theirs = commit_all(remote)
    write(local, {"README.md": "mine\n"})
    async with opened(tmp_path / "w", local, remote) as world:
        tree = await world.synced()
        assert [kept["commit"] for kept in tree["kept"]] == [theirs]
        assert git(remote, "rev-parse", tree["kept"][0]["ref"]) == theirs


@pytest.mark.asyncio
async def test_native_inputs_are_named_until_they_are_built(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    local, remote = pair
    write(remote, {"vllm_ascend/built.so": "old"})
    os.utime(remote / "vllm_ascend/built.so", (1, 1))
    write(local, {"csrc/op.cpp": "int f() { return 2; }\n"})
    async with opened(tmp_path / "w", local, remote) as world:
        tree = await world.synced()
        assert tree["native_inputs_changed"]
        assert tree["native_inputs"] == ["csrc/op.cpp"]
        assert tree["rebuild"] == ["the custom operators and kernels"]
        again = await world.synced()
        assert again["status"] == "unchanged"
        assert again["native_inputs_changed"]
        os.utime(remote / "vllm_ascend/built.so", None)
        os.utime(remote / "vllm_ascend/built.so", (2**32, 2**32))
        assert not (await world.synced())["native_inputs_changed"]


@pytest.mark.asyncio
async def test_native_inputs_that_are_back_need_no_build(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    local, remote = pair
    write(local, {"csrc/op.cpp": "int f() { return 2; }\n"})
    async with opened(tmp_path / "w", local, remote) as world:
        assert (await world.synced())["native_inputs_changed"]
        write(local, {"csrc/op.cpp": FILES["csrc/op.cpp"]})
        assert not (await world.synced())["native_inputs_changed"]


async def submodules(world: World) -> None:
    """Go through what can happen to a submodule."""
    local, remote = world.local, world.remote
    inner = local / "csrc/third_party/catlass"
    tree = await world.synced()
    assert contents(remote) == contents(local)
    write(inner, {"kernel.h": "changed\n", "new.h": "new\n"})
    before = frozen(local), contents(inner), git(inner, "show-ref", "--head")
    tree = await world.synced()
    assert contents(remote) == contents(local)
    assert (frozen(local), contents(inner), git(inner, "show-ref", "--head")) == before
    assert "csrc/third_party/catlass" in tree["native_inputs"]
    assert (await world.synced())["status"] == "unchanged"
    commit_all(inner)
    await world.synced()
    assert git(remote / "csrc/third_party/catlass", "rev-parse", "HEAD") == git(inner, "rev-parse", "HEAD")
    write(remote / "csrc/third_party/catlass", {"kernel.h": "theirs\n"})
    write(local, {"README.md": "more\n"})
    refused = await world.sync()
    assert refused["error"]["code"] == "tree_dirty"
    assert "csrc/third_party/catlass/kernel.h" in refused["error"]["message"]
    tree = await world.synced(keep_remote=True)
    (kept,) = tree["kept"]
    assert kept["path"] == "csrc/third_party/catlass"
    assert git(remote / kept["path"], "show", f"{kept['ref']}:kernel.h") == "theirs"
    assert contents(remote) == contents(local)


@pytest.mark.asyncio
@pytest.mark.parametrize("populated", [False, True])
async def test_submodules_travel_with_content_and_pointer(tmp_path: Path, *, populated: bool) -> None:
    catlass = new_tree(tmp_path / "catlass", {"kernel.h": "one\n"})
    local = new_tree(tmp_path / "local", FILES)
    git(local, "submodule", "--quiet", "add", str(catlass), "csrc/third_party/catlass")
    commit_all(local)
    git(tmp_path, "clone", "-q", *(["--recurse-submodules"] if populated else []), str(local), "remote")
    async with opened(tmp_path / "w", local, tmp_path / "remote") as world:
        await submodules(world)


@pytest.mark.asyncio
async def test_shallow_clones_on_either_side_are_enough(tmp_path: Path) -> None:
    origin = new_tree(tmp_path / "origin", FILES)
    for number in range(4):
        write(origin, {"README.md": f"{number}\n"})
        commit_all(origin)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{origin}", "remote")
    write(origin, {"README.md": "5\n"})
    commit_all(origin)
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{origin}", "shallow")
    async with opened(tmp_path / "w", tmp_path / "shallow", tmp_path / "remote") as world:
        write(world.local, {"README.md": "0\n"})
        await world.synced()
        assert git(world.remote, "fsck", "--connectivity-only") == ""
        assert len(git(world.remote, "log", "--format=%h").splitlines()) == 3
        commit_all(world.local)
        await world.synced()
        assert git(world.remote, "fsck", "--connectivity-only") == ""
    async with opened(tmp_path / "w2", origin, tmp_path / "remote") as world:
        await world.synced()
        assert git(world.remote, "fsck", "--connectivity-only") == ""
        git(world.local, "reset", "-q", "--hard", "HEAD~3")
        await world.synced()
        assert git(world.remote, "fsck", "--connectivity-only") == ""


@pytest.mark.asyncio
async def test_a_task_without_a_tree_and_an_endpoint_without_one_are_told_what_to_do(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    local, _remote = pair
    async with opened(tmp_path / "w", local, tmp_path / "absent") as world:
        missing = await world.sync(repo="vllm")
        assert (missing["outcome"], missing["error"]["code"]) == ("needs_input", "source_missing")
        absent = await world.sync()
        assert (absent["outcome"], absent["error"]["code"]) == ("failed", "not_a_tree")
        assert str(tmp_path / "absent") in absent["error"]["message"]


@pytest.mark.asyncio
async def test_a_file_that_the_endpoint_denies_is_not_written_and_nothing_else_either(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    local, remote = pair
    write(local, {"more.py": "more\n", "deep/secret.txt": "s\n"})
    before = frozen(remote)
    async with opened(tmp_path / "w", local, remote) as world:
        config = load_endpoints(world.state_dir)["box"]
        save_endpoint(world.state_dir, config.model_copy(update={"deny_paths": ("secret*",)}))
        answer = await world.sync()
        assert (answer["outcome"], answer["error"]["code"]) == ("failed", "path_denied")
        assert "secret.txt" in answer["summary"]
        assert frozen(remote) == before
        (local / "deep" / "secret.txt").unlink()
        await world.synced()

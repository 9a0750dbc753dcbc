"""A run finds the tree's own work put aside, and leaves everything as it was, also when it is killed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from parity_world import World, commit_all, contents, git, new_tree, opened, write

from vaws_mcp.core.failures import Blocked, CleanupFailed, Failure
from vaws_mcp.source.patching import Patch, apply_patch, patched
from vaws_mcp.source.records import TreeRecord
from vaws_mcp.source.stash import SavedWork, stash_ref
from vaws_mcp.source.tree import checkout, put_back, read_tree, restored
from vaws_mcp.store.records import load, save

FILES = {"a.py": "".join(f"line {n}\n" for n in range(60)), "b.py": "b\n", ".gitignore": "*.so\n", "csrc/op.cpp": "1\n"}
PATCH = b"""diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 line 0
-line 1
+line one
 line 2
@@ -49,3 +49,3 @@
 line 48
-line 49
+line forty-nine
 line 50
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+fresh
"""


def dirty(top: Path) -> None:
    """Leave work of every kind in a tree."""
    write(top, {"a.py": "changed\n", "b.py": "staged\n", "mine.py": "untracked\n", "built.so": "binary"})
    git(top, "add", "b.py")
    write(top, {"b.py": "and changed again\n", "added.py": "added\n"})
    git(top, "add", "added.py")
    git(top, "update-index", "--assume-unchanged", "csrc/op.cpp")


def look(top: Path) -> tuple[object, ...]:
    """Everything that has to be as it was."""
    index = git(top, "ls-files", "--stage", "-v"), git(top, "diff", "--cached"), git(top, "diff")
    return (
        git(top, "status", "--branch", "--porcelain=v2"),
        *index,
        contents(top),
        git(top, "rev-parse", "HEAD", "main"),
    )


@asynccontextmanager
async def world_of(tmp_path: Path, *, submodule: bool = False) -> AsyncGenerator[tuple[World, list[str]]]:
    remote = new_tree(tmp_path / "remote", FILES)
    if submodule:
        inner = new_tree(tmp_path / "inner", {"kernel.h": "one\n"})
        git(remote, "submodule", "--quiet", "add", str(inner), "third_party/inner")
        commit_all(remote)
    git(remote, "checkout", "-q", "-b", "other")
    write(remote, {"b.py": "other\n", "added.py": "theirs\n", "mine.py": "theirs\n"})
    other = commit_all(remote)
    git(remote, "checkout", "-q", "main")
    async with opened(tmp_path / "w", remote, remote) as world:
        yield world, [git(remote, "rev-parse", "main"), other]


async def record_of(world: World, ours: list[str], *, stash: bool) -> TreeRecord:
    endpoint = await world.endpoint()
    state = await read_tree(endpoint, str(world.remote), dirty_allowed=stash)
    return TreeRecord(
        endpoint=endpoint.config,
        repo=str(world.remote),
        branch=state.branch,
        sha=state.sha,
        tree=state.tree,
        ours=ours,
        who="run-1",
        stash_ref=stash_ref("run-1") if stash else None,
    )


@pytest.mark.asyncio
@pytest.mark.parametrize("detached", [False, True])
async def test_work_is_put_aside_and_comes_back_exactly(tmp_path: Path, *, detached: bool) -> None:
    async with world_of(tmp_path) as (world, ours):
        if detached:
            git(world.remote, "checkout", "-q", "--detach")
        dirty(world.remote)
        before = look(world.remote)
        endpoint = await world.endpoint()
        with pytest.raises(Blocked, match="uncommitted") as caught:
            await read_tree(endpoint, str(world.remote))
        assert set(caught.value.fields["dirty"]) == {"a.py", "b.py", "mine.py", "added.py"}
        record = await record_of(world, ours, stash=True)
        async with restored(world.context(), endpoint, record, tmp_path / "tree.json"):
            assert git(world.remote, "status", "--porcelain") == ""
            saved = load(tmp_path / "tree.json", TreeRecord).stash
            assert [one.ref for one in saved] == ["refs/vaws/stash/run-1"]
            assert git(world.remote, "show", "refs/vaws/stash/run-1:mine.py") == "untracked"
            for sha in ours:
                await checkout(endpoint, str(world.remote), sha)
                assert git(world.remote, "rev-parse", "HEAD") == sha
        assert look(world.remote) == before
        assert git(world.remote, "for-each-ref", "refs/vaws") == ""


@pytest.mark.asyncio
@pytest.mark.parametrize("moment", ["saved", "cleared", "checked out", "patched", "half back"])
async def test_a_killed_run_is_made_up_for(tmp_path: Path, moment: str) -> None:
    async with world_of(tmp_path) as (world, ours):
        dirty(world.remote)
        before = look(world.remote)
        path, endpoint, top = tmp_path / "tree.json", await world.endpoint(), world.remote
        record = await record_of(world, ours, stash=True)
        save(path, record)
        rows = await endpoint.call("tree.stash", {"repo": str(top), "ref": record.stash_ref, "who": "x"})
        taken = record.model_copy(update={"stash": [SavedWork.model_validate(one) for one in rows.result["saved"]]})
        save(path, taken)
        if moment != "saved":
            await endpoint.call("tree.clear", {"repo": str(top), "saved": rows.result["saved"], "who": "x"})
        if moment in ("checked out", "patched"):
            await checkout(endpoint, str(top), ours[1])
        if moment == "patched":
            save(path, taken.model_copy(update={"patch_file": "remote.patch"}))
            (tmp_path / "remote.patch").write_bytes(PATCH)
            await apply_patch(endpoint, str(top), Patch(PATCH), who="x")
        if moment == "half back":
            git(top, "checkout", "-q", "--detach", taken.stash[0].commit)
        assert await put_back(world.context(), path) is not None
        assert look(top) == before
        assert await put_back(world.context(), path) is None


@pytest.mark.asyncio
async def test_work_in_submodules_is_put_aside_too(tmp_path: Path) -> None:
    async with world_of(tmp_path, submodule=True) as (world, ours):
        inner = world.remote / "third_party/inner"
        git(inner, "checkout", "-q", "-b", "topic")
        write(inner, {"more.h": "committed\n"})
        commit_all(inner)
        write(inner, {"kernel.h": "changed\n", "extra.h": "untracked\n"})
        dirty(world.remote)
        before = look(world.remote), look_inside(inner)
        endpoint = await world.endpoint()
        record = await record_of(world, ours, stash=True)
        async with restored(world.context(), endpoint, record, tmp_path / "tree.json"):
            assert git(world.remote, "status", "--porcelain") == ""
            await checkout(endpoint, str(world.remote), ours[1])
        assert (look(world.remote), look_inside(inner)) == before


def look_inside(inner: Path) -> tuple[str, ...]:
    return git(inner, "status", "--branch", "--porcelain=v2"), git(inner, "rev-parse", "HEAD")


@pytest.mark.asyncio
async def test_conflicts_in_the_index_come_back_as_they_were(tmp_path: Path) -> None:
    async with world_of(tmp_path) as (world, ours):
        top = world.remote
        blobs = [git(top, "hash-object", "-w", "--stdin", stdin=text) for text in (b"base\n", b"ours\n", b"theirs\n")]
        rows = "".join(f"100644 {oid} {stage}\tb.py\n" for stage, oid in enumerate(blobs, 1))
        git(top, "update-index", "--index-info", stdin=f"0 {'0' * 40}\tb.py\n{rows}".encode())
        write(top, {"b.py": "<<<<<<< ours\n"})
        before = look(top)
        endpoint = await world.endpoint()
        record = await record_of(world, ours, stash=True)
        async with restored(world.context(), endpoint, record, tmp_path / "tree.json"):
            assert git(top, "status", "--porcelain") == ""
            await checkout(endpoint, str(top), ours[1])
        assert look(top) == before
        (top / ".git/MERGE_HEAD").write_text(ours[1] + "\n")
        with pytest.raises(Blocked, match="a merge is under way"):
            async with restored(world.context(), endpoint, record, tmp_path / "tree.json"):
                pytest.fail("it went on")
        (top / ".git/MERGE_HEAD").unlink()
        assert look(top) == before


@pytest.mark.asyncio
async def test_line_ends_that_git_converts_come_back_byte_by_byte(tmp_path: Path) -> None:
    async with world_of(tmp_path) as (world, ours):
        top = world.remote
        write(top, {".gitattributes": "* text=auto\nb.py eol=crlf\n"})
        (top / "b.py").write_bytes(b"one\r\ntwo\r\n")
        sha = commit_all(top)
        (top / "a.py").write_bytes(b"tracked\r\nmixed\n")
        (top / "b.py").write_bytes(b"as\r\nit\r\nshould\r\n")
        (top / "new.py").write_bytes(b"untracked\r\n")
        (top / "new.py").chmod(0o755)
        before = look(top)
        endpoint = await world.endpoint()
        record = await record_of(world, [*ours, sha], stash=True)
        async with restored(world.context(), endpoint, record, tmp_path / "tree.json"):
            assert git(top, "ls-tree", "-r", "--name-only", "refs/vaws/stash/run-1-bytes").split() == ["a.py", "new.py"]
            await checkout(endpoint, str(top), ours[0])
        assert look(top) == before
        assert git(top, "for-each-ref", "refs/vaws") == ""


@pytest.mark.asyncio
async def test_other_work_that_came_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    async with world_of(tmp_path) as (world, ours):
        dirty(world.remote)
        endpoint = await world.endpoint()
        record = await record_of(world, ours, stash=True)
        with pytest.raises(CleanupFailed) as caught:
            async with restored(world.context(), endpoint, record, tmp_path / "tree.json"):
                write(world.remote, {"a.py": "somebody else\n"})
        assert caught.value.code == "restore_failed"
        assert "a.py" in caught.value.message
        assert (world.remote / "a.py").read_text() == "somebody else\n"
        git(world.remote, "checkout", "-q", "a.py")
        assert await put_back(world.context(), tmp_path / "tree.json") is not None
        assert (world.remote / "a.py").read_text() == "changed\n"


@pytest.mark.asyncio
async def test_old_records_are_put_back_as_well(tmp_path: Path) -> None:
    async with world_of(tmp_path) as (world, ours):
        record = await record_of(world, ours, stash=False)
        new = {"who", "stash_ref", "stash", "patch_file", "reservation"}
        old = record.model_dump_json(by_alias=True, exclude=new)
        (tmp_path / "tree.json").write_text(old)
        git(world.remote, "checkout", "-q", "--detach", ours[1])
        assert "put back to main" in str(await put_back(world.context(), tmp_path / "tree.json"))
        assert git(world.remote, "symbolic-ref", "HEAD") == "refs/heads/main"


@pytest.mark.asyncio
async def test_a_patch_is_applied_and_taken_out_again(tmp_path: Path) -> None:
    async with world_of(tmp_path) as (world, ours):
        endpoint, path = await world.endpoint(), tmp_path / "tree.json"
        save(path, await record_of(world, ours, stash=False))
        before = look(world.remote)
        async with patched(world.context(), endpoint, Patch(PATCH), path) as applied:
            assert applied is not None
            assert applied.files == ("a.py", "new.py")
            assert applied.sha256 == Patch(PATCH).sha256
            assert (world.remote / "new.py").read_text() == "fresh\n"
            assert load(path, TreeRecord).patch_file == "remote.patch"
        assert look(world.remote) == before
        assert load(path, TreeRecord).patch_file is None


@pytest.mark.asyncio
async def test_a_patch_that_does_not_fit_names_file_and_hunk_and_changes_nothing(tmp_path: Path) -> None:
    async with world_of(tmp_path) as (world, ours):
        endpoint, path = await world.endpoint(), tmp_path / "tree.json"
        write(world.remote, {"a.py": FILES["a.py"].replace("line 49", "line L")})
        commit_all(world.remote)
        save(path, await record_of(world, ours, stash=False))
        before = look(world.remote)
        with pytest.raises(Failure) as caught:
            async with patched(world.context(), endpoint, Patch(PATCH), path):
                pytest.fail("it was applied")
        assert caught.value.code == "patch_mismatch"
        assert "a.py, hunk 2" in caught.value.message
        assert look(world.remote) == before
        for bad in (b"no patch at all\n", PATCH[:120]):
            with pytest.raises(Failure) as caught:
                await apply_patch(endpoint, str(world.remote), Patch(bad), who="x")
            assert caught.value.code == "patch_malformed"
        assert look(world.remote) == before

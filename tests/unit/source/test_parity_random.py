"""Whatever is done to a tree, both sides come out with one hash; whatever is done on the endpoint is never lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parity_world import commit_all, contents, frozen, git, new_tree, write

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Blocked, Failure
from vaws_mcp.endpoint.channel import Answer, failure_from
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.source.models import TreeSync
from vaws_mcp.source.parity import Wish, sync_tree
from vaws_mcp.worker.engine.tree.deny import is_denied
from vaws_mcp.worker.methods import find
from vaws_mcp.worker.refusal import Refusal
from vaws_mcp.worker.request import Call, Request

ROUNDS = int(os.environ.get("VAWS_PARITY_ROUNDS", "10"))
RANDOM = settings(
    max_examples=ROUNDS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
NAMES = (
    "a",
    "b",
    "dir/a",
    "dir/sub/c",
    "dir",
    "sp ace",
    "new\nline",
    "\udcff\udcfe",
    "-x",
    "x.so",
    "build/y",
    "Case",
    "case",
)
RULES = (".gitignore", ".gitattributes", "dir/.gitignore")
TEXTS = (
    "",
    "1\n",
    "two\r\nlines\r\n",
    "\0\x01",
    "a\nb\n*.so\n",
    "* text=auto\n",
    "b text eol=crlf\n",
    "1\n2\n3\n" * 30,
)

names = st.sampled_from(NAMES)
step = st.one_of(
    st.tuples(st.just("write"), st.one_of(names, st.sampled_from(RULES)), st.sampled_from(TEXTS)),
    st.tuples(st.just("delete"), names, st.just("")),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("link"), names, names),
    st.tuples(st.just("mode"), names, st.just("")),
    st.tuples(st.just("stage"), names, st.just("")),
    st.tuples(st.just("forget"), names, st.just("")),
    st.tuples(st.just("assume"), names, st.just("")),
    st.tuples(st.just("commit"), st.just(""), st.just("")),
)
script = st.lists(step, max_size=12)


class Direct:
    """An endpoint whose worker's methods are called in this process."""

    def __init__(self, config: EndpointConfig) -> None:
        self.config = config
        self.hello: dict[str, Any] = {"home": "/nowhere"}

    async def call(self, method: str, params: dict[str, Any], *, body: bytes = b"", **_rest: Any) -> Answer:
        request = Request(Call(1, method, params, body, None), lambda _head, _body: None)
        try:
            result, out = await asyncio.to_thread(find(method), request)
        except Refusal as refusal:
            raise failure_from(refusal.as_error(), method) from None
        return Answer(result, out)


def sync(local: Path, remote: Path, **wish: Any) -> TreeSync:
    endpoint: Any = Direct(EndpointConfig(name="box", vllm_ascend_repo=str(remote)))

    async def work() -> TreeSync:
        async with Resources() as resources:
            ctx = Context(state_dir=local.parent, resources=resources)
            return await sync_tree(ctx, endpoint, str(remote), local, Wish("random", **wish))

    return asyncio.run(work())


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def make_room(top: Path, name: str) -> Path:
    """Let a path be free, and everything above it be directories."""
    path = top / name
    for above in reversed(path.relative_to(top).parents[:-1]):
        if (top / above).is_symlink() or (top / above).is_file():
            remove(top / above)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove(path)
    return path


def carry_out(top: Path, steps: list[tuple[str, str, str]], *, commits: bool = True) -> None:
    for act, name, more in steps:
        path = top / name
        here = os.path.lexists(path)
        plain = path.is_file() and not path.is_symlink()
        if act == "write":
            make_room(top, name).write_bytes(more.encode())
        elif act == "delete":
            remove(path)
        elif act == "rename" and here and name != more and not f"{more}/".startswith(f"{name}/"):
            moved = top.parent / "moving"
            path.rename(moved)
            moved.rename(make_room(top, more))
        elif act == "link":
            make_room(top, name).symlink_to(more)
        elif act == "mode" and plain:
            path.chmod(path.stat().st_mode ^ 0o111)
        elif act == "stage" and here:
            git(top, "add", "-f", "-A", "--", f":(literal){name}")
        elif act == "forget":
            git(top, "rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", f":(literal){name}")
        elif act == "assume" and plain and git(top, "ls-files", "--", f":(literal){name}"):
            git(top, "update-index", "--assume-unchanged", "--", name)
        elif act == "commit" and commits:
            commit_all(top)


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")


def pair(folder: str) -> tuple[Path, Path]:
    top = Path(folder)
    local = new_tree(top / "local", {"a": "1\n", "dir/a": "1\n", "dir/sub/c": "c\n", "x.so": "committed\n", "Case": ""})
    git(top, "clone", "-q", str(local), "remote")
    return local, top / "remote"


@pytest.mark.timeout(60 + 10 * ROUNDS)
@RANDOM
@given(first=script, second=script)
def test_both_sides_have_one_hash(first: list[Any], second: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        local, remote = pair(folder)
        write(remote, {"build/kept.o": "built here"})
        for steps in (first, second):
            carry_out(local, steps)
            before = frozen(local)
            tree = sync(local, remote)
            assert frozen(local) == before
            assert tree.equal
            assert git(remote, "rev-parse", "HEAD^{tree}") == tree.local_tree == tree.remote_tree
            assert sync(local, remote).status == "unchanged"
            assert (remote / "build/kept.o").read_text() == "built here"


@pytest.mark.timeout(60 + 10 * ROUNDS)
@RANDOM
@given(ours=script, theirs=script)
def test_work_on_the_endpoint_is_never_lost(ours: list[Any], theirs: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        local, remote = pair(folder)
        carry_out(local, ours)
        carry_out(remote, theirs)
        porcelain = git(remote, "status", "--porcelain")  # it may refresh the index, so it comes first
        before, state = contents(remote), frozen(remote)
        try:
            tree = sync(local, remote)
        except Blocked:
            assert frozen(remote) == state
        else:
            assert_kept(remote, before, tree)
            return
        try:
            tree = sync(local, remote, keep=True)
        except Blocked:
            assert contents(remote) == before
            assert git(remote, "symbolic-ref", "HEAD") == "refs/heads/main"
            assert git(remote, "status", "--porcelain") == porcelain
        else:
            assert_kept(remote, before, tree)


@pytest.mark.timeout(60 + 10 * ROUNDS)
@RANDOM
@given(theirs=script, other=script)
def test_work_put_aside_comes_back(theirs: list[Any], other: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _local, remote = pair(folder)
        git(remote, "checkout", "-q", "-b", "other")
        carry_out(remote, other, commits=False)
        commit_all(remote)
        git(remote, "checkout", "-q", "-f", "main")
        carry_out(remote, theirs)
        before = everything(remote)
        saved = ask(remote, "stash", ref="refs/vaws/stash/x")["saved"]
        goal = git(remote, "rev-parse", "other")
        try:
            ask(remote, "clear", saved=saved)
            ask(remote, "materialise", commits={"": goal}, kept_ref="refs/vaws/kept/x", keep=False)
            assert git(remote, "rev-parse", "HEAD") == goal
        except Failure as failure:
            if failure.code != "would_overwrite":
                raise
        if saved:
            ask(remote, "unstash", saved=saved)
        else:
            git(remote, "checkout", "-q", "main")
        assert everything(remote) == before


def everything(top: Path) -> tuple[Any, ...]:
    staged = git(top, "status", "--porcelain=v2", "--branch"), git(top, "ls-files", "--stage", "-v")
    return *staged, contents(top)


def ask(top: Path, method: str, **params: Any) -> dict[str, Any]:
    endpoint = Direct(EndpointConfig(name="box"))
    return asyncio.run(endpoint.call(f"tree.{method}", {"repo": str(top), "who": "x", **params})).result


def assert_kept(remote: Path, before: dict[bytes, tuple[str, bytes]], tree: TreeSync) -> None:
    """Every file as it was is on disk still, in a commit that has a ref, or was built."""
    now = contents(remote)
    stored = set(git(remote, "rev-list", "--objects", "--all", "--no-object-names").split())
    for name, (kind, body) in before.items():
        if now.get(name) == (kind, body) or is_denied(os.fsdecode(name)):
            continue
        words = ["--no-filters"] if kind == "link" else [f"--path={os.fsdecode(name)}"]
        found = {
            git(remote, "hash-object", *words, "--stdin", stdin=body),
            git(remote, "hash-object", "--stdin", stdin=body),
        }
        assert found & stored, (name, kind, body, tree.kept)

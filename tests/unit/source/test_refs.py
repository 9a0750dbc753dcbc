"""A ref becomes a commit on the endpoint: known there, fetched there, or fetched here and sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from parity_world import World, commit_all, git, new_tree, opened, write

from vaws_mcp.core.failures import Failure
from vaws_mcp.source.fetching import Laptop
from vaws_mcp.source.refs import resolve_ref

NOWHERE = "file:///nonexistent/repository"


def origin_of(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Make a remote that has gained a branch, a tag and a pull request since both sides cloned it."""
    origin = new_tree(tmp_path / "origin", {"a.py": "1\n"})
    base = git(origin, "rev-parse", "HEAD")
    for name in ("local", "remote"):
        git(tmp_path, "clone", "-q", str(origin), name)
    git(origin, "checkout", "-q", "-b", "topic/x")
    write(origin, {"a.py": "2\n"})
    topic = commit_all(origin)
    git(origin, "tag", "-a", "v1", "-m", "one")
    write(origin, {"a.py": "3\n"})
    pull = commit_all(origin)
    git(origin, "update-ref", "refs/pull/7/head", pull)
    git(origin, "reset", "-q", "--hard", topic)
    return origin, {"base": base, "topic": topic, "pull": pull}


async def resolved(world: World, ref: str, *, laptop: bool) -> tuple[str, str | None, str | None, str | None]:
    helper = Laptop(world.context(), world.local) if laptop else None
    found = await resolve_ref(await world.endpoint(), str(world.remote), ref, helper)
    assert git(world.remote, "cat-file", "-t", f"{found.sha}^{{tree}}") == "tree"
    return found.sha, found.remote, found.fetched_by, found.merge_base


@pytest.mark.asyncio
@pytest.mark.parametrize("cut", [False, True])
async def test_what_the_tree_lacks_is_fetched_there_or_here(tmp_path: Path, *, cut: bool) -> None:
    _origin, sha = origin_of(tmp_path)
    base, by = sha["base"], "laptop" if cut else "endpoint"
    async with opened(tmp_path / "w", tmp_path / "local", tmp_path / "remote") as world:
        if cut:
            git(world.remote, "remote", "set-url", "origin", NOWHERE)
        refs = git(world.local, "show-ref")
        assert await resolved(world, "main", laptop=cut) == (base, None, None, base)
        assert await resolved(world, "topic/x", laptop=cut) == (sha["topic"], "origin", by, base)
        for ref in ("pr:7", "#7"):
            assert await resolved(world, ref, laptop=cut) == (sha["pull"], "origin", by, base)
        assert (await resolved(world, "base-of:pr:7", laptop=cut))[0] == base
        assert git(world.remote, "rev-parse", "refs/vaws/pull/7") == sha["pull"]
        assert git(world.local, "show-ref") == refs
        assert git(world.remote, "fsck", "--connectivity-only") == ""
        # A tag and a bare sha, neither of which a branch of the clone leads to.
        assert (await resolved(world, "v1", laptop=cut))[0] == sha["topic"]
        assert (await resolved(world, sha["pull"], laptop=cut))[0] == sha["pull"]


@pytest.mark.asyncio
async def test_upstream_comes_before_origin(tmp_path: Path) -> None:
    origin, sha = origin_of(tmp_path)
    async with opened(tmp_path / "w", tmp_path / "local", tmp_path / "remote") as world:
        git(world.remote, "remote", "add", "upstream", str(origin))
        git(world.remote, "remote", "set-url", "origin", NOWHERE)
        assert (await resolved(world, "pr:7", laptop=False))[:3] == (sha["pull"], "upstream", "endpoint")


@pytest.mark.asyncio
async def test_what_nobody_can_fetch_says_what_was_tried(tmp_path: Path) -> None:
    origin_of(tmp_path)
    async with opened(tmp_path / "w", tmp_path / "local", tmp_path / "remote") as world:
        git(world.remote, "remote", "set-url", "origin", NOWHERE)
        with pytest.raises(Failure) as caught:
            await resolved(world, "pr:8", laptop=True)
        assert caught.value.code == "ref_unknown"
        assert "failed too" in caught.value.message
        assert str(world.local) in caught.value.message
        with pytest.raises(Failure) as caught:
            await resolved(world, "pr:7", laptop=False)
        assert "failed too" not in caught.value.message

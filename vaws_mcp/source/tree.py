"""Changing a tree on the endpoint, and putting it back."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, CleanupFailed, Failure
from vaws_mcp.endpoint.connect import Endpoint, connected, renewed
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.endpoint.registry import present
from vaws_mcp.source.git import git_text
from vaws_mcp.source.parity import LOOK_S, Wish, materialise
from vaws_mcp.source.patching import take_out_left
from vaws_mcp.source.records import TreeRecord
from vaws_mcp.source.stash import clear_work, put_work_back, save_work
from vaws_mcp.store.records import load, save

RESTORE_S = 300.0


@dataclass(frozen=True)
class TreeState:
    """Where a tree stood: the branch, or None when its head was detached, the commit, and what was uncommitted."""

    branch: str | None
    sha: str
    tree: str
    dirty: tuple[str, ...] = ()


async def read_tree(endpoint: Endpoint, repo: str, *, dirty_allowed: bool = False) -> TreeState:
    """Return where a tree stands. ``dirty_allowed`` is for a caller that puts uncommitted work aside.

    Raises: Failure ``repo_missing`` when there is no git tree. Blocked ``tree_dirty`` when it has changes that a
    checkout would mix with or lose; they are named.
    """
    try:
        state = await _state(endpoint, repo)
    except Failure as failure:
        if failure.code not in ("not_a_tree", "not_found"):
            raise
        raise Failure(
            "repo_missing",
            f"there is no git tree at {repo} on {endpoint.config.address}: {failure.message}",
            layer="remote_env",
            hint="Set vllm_ascend_repo for this endpoint in endpoints.toml.",
            retry_safe=True,
            phase="resolve",
        ) from None
    names = tuple(path for _kind, path in state["changes"]["first"])
    count = state["changes"]["count"]
    if count and not dirty_allowed:
        shown = ", ".join(names[:5]) + (" …" if count > 5 else "")
        raise Blocked(
            "tree_dirty",
            f"{repo} on {endpoint.config.address} has {count} uncommitted changes: {shown}",
            layer="remote_env",
            hint="Commit or stash them on the endpoint, or repeat with stash=true (--stash); nothing was touched.",
            retry_safe=True,
            phase="resolve",
            fields={"dirty": list(names)},
        )
    return TreeState(state["branch"], state["head"], state["head_tree"], names)


async def checkout(
    endpoint: Endpoint, repo: str, sha: str, *, who: str = "run", reservation: str | None = None
) -> None:
    """Put a clean tree and its submodules at a commit with detached heads; files on disk are compared with it after.

    Cancellation waits for git.

    Raises: Blocked ``tree_dirty``, ``tree_locked``, ``would_overwrite``; Failure ``tree_differs``,
    ``submodule_missing``, or of git.
    """
    # git that is ended halfway leaves changed files behind a head that has not moved.
    with anyio.CancelScope(shield=True):
        await materialise(endpoint, repo, {"": sha}, None, Wish(who, reservation=reservation), remember=False)


async def require_at(endpoint: Endpoint, repo: str, sha: str) -> None:
    """Make sure that the tree still stands where it was put: a launch from another commit proves nothing.

    Raises: Failure ``tree_moved`` that names both commits.
    """
    found = await git_text(endpoint, repo, "rev-parse", "HEAD")
    if found != sha:
        raise Failure(
            "tree_moved",
            f"somebody moved {repo} on {endpoint.config.address} from {sha[:12]} to {found[:12]} during a launch",
            layer="remote_env",
            hint="The launch does not count. Find out who else works in this tree, then repeat.",
            phase="measure",
        )


@asynccontextmanager
async def restored(ctx: Context, endpoint: Endpoint, record: TreeRecord, path: Path) -> AsyncGenerator[None]:
    """Put the tree back to where it was when the block ends, also after failure and cancellation.

    With a ``stash_ref`` in the record, uncommitted work is put aside first and put back last. The record is on disk at
    ``path`` before anything changes: should this process be killed, ``put_back`` does it.

    Raises: CleanupFailed when it cannot be put back; an error of the block is then named in it.
    """
    save(path, record)
    problem: BaseException | None = None
    try:
        if record.stash_ref is not None:
            await _put_aside(endpoint, record, path)
        yield
    except BaseException as error:
        problem = error
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await _restore(ctx, endpoint, load(path, TreeRecord), path, problem)


async def _put_aside(endpoint: Endpoint, record: TreeRecord, path: Path) -> None:
    """Save uncommitted work, write down where, and only then take it out of the way."""
    who, held = record.who, record.reservation
    with anyio.CancelScope(shield=True):
        saved = await save_work(endpoint, record.repo, str(record.stash_ref), who=who, reservation=held)
        save(path, record.model_copy(update={"stash": saved}))
        await clear_work(endpoint, record.repo, saved, who=who, reservation=held)


async def put_back(ctx: Context, path: Path) -> str | None:
    """Put back the tree that a killed run left changed; return a sentence about it, None when there was nothing to do.

    A tree that stands somewhere else by now was moved by somebody else and is left alone.

    Raises: CleanupFailed. Failure of the endpoint or of the record.
    """
    record = load(path, TreeRecord)
    if record.put_back:
        return None
    endpoint = await connected(ctx, present(ctx.state_dir, record.endpoint))
    record = record.model_copy(update={"reservation": None})  # it ended with the run
    head = await git_text(endpoint, record.repo, "rev-parse", "HEAD")
    place = f"{record.repo} on {endpoint.config.address}"
    ours = [record.sha, *record.ours, *(one.commit for one in record.stash)]
    if head not in ours:
        return f"{place} stands at {head[:12]}, where no run of this task has put it; it was left alone"
    await _restore(ctx, endpoint, record, path, None)
    return f"{place} was put back to {record.branch or record.sha[:12]}"


async def _restore(
    ctx: Context, endpoint: Endpoint, record: TreeRecord, path: Path, problem: BaseException | None
) -> None:
    goal = record.branch or record.sha[:12]
    why: str | None = "it took too long"
    with anyio.move_on_after(RESTORE_S):
        try:
            await ctx.progress("restore", f"putting {record.repo} back to {goal}")
            why = await _checked_back(await renewed(ctx, endpoint), record, path)
        except Failure as failure:
            why = failure.message
    if why is None:
        save(path, record.model_copy(update={"put_back": True, "patch_file": None}))
        return
    after = f" (after: {problem})" if isinstance(problem, Failure) else ""
    failure = CleanupFailed(
        "restore_failed",
        f"{record.repo} on {endpoint.config.address} could not be put back to {goal}: {why}{after}",
        layer="remote_env",
        hint=f"On the endpoint: git -C {record.repo} checkout {record.branch or record.sha}",
        retry_safe=True,
        phase="restore",
    )
    raise failure.carrying(**problem.fields) if isinstance(problem, Failure) else failure


async def _checked_back(endpoint: Endpoint, record: TreeRecord, path: Path) -> str | None:
    """Check out what was there before; return None when the tree is as it was, else what is different.

    Raises: Failure of git, or of what is to be put back.
    """
    repo, who, held = record.repo, record.who, record.reservation
    await take_out_left(endpoint, record, path, reservation=held)
    state = await _state(endpoint, repo)
    at_home = (state["head"], state["branch"]) == (record.sha, record.branch)
    # Work that was to be put aside may still be there, because the run ended before that.
    if not (at_home and (record.stash_ref is not None or not state["changes"]["count"])):
        await checkout(endpoint, repo, record.sha, who=who, reservation=held)
        if record.branch:
            await git_text(endpoint, repo, "checkout", "--quiet", record.branch, timeout_s=RESTORE_S)
        shas = (await git_text(endpoint, repo, "rev-parse", "HEAD", "HEAD^{tree}")).split()
        if shas != [record.sha, record.tree]:
            return f"it stands at {shas[0]}"
    if record.stash:
        await put_work_back(endpoint, repo, record.stash, who=who, reservation=held)
        return None
    changes = (await _state(endpoint, repo))["changes"]
    return f"it has changes in {changes['first'][0][1]}" if changes["count"] and record.stash_ref is None else None


async def _state(endpoint: Endpoint, repo: str) -> dict[str, Any]:
    params = {"repo": repo, **policy_params(endpoint.config)}
    return (await endpoint.call("tree.state", params, deadline_s=LOOK_S)).result

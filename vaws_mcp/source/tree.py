"""Changing a tree on the endpoint, and putting it back."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, CleanupFailed, Failure
from vaws_mcp.endpoint.connect import Endpoint, connected, renewed
from vaws_mcp.endpoint.registry import present
from vaws_mcp.source.git import git, git_text
from vaws_mcp.source.records import TreeRecord
from vaws_mcp.store.records import load, save

RESTORE_S = 120.0


@dataclass(frozen=True)
class TreeState:
    """Where a tree stood: the branch, or None when its head was detached, and the commit."""

    branch: str | None
    sha: str
    tree: str


async def read_tree(endpoint: Endpoint, repo: str) -> TreeState:
    """Return where a tree stands.

    Raises: Failure ``repo_missing`` when there is no git tree. Blocked ``tree_dirty`` when it has changes that a
    checkout would mix with or lose; they are named.
    """
    inside = await git(endpoint, repo, "rev-parse", "--is-inside-work-tree")
    if inside.code != 0 or inside.text != "true":
        raise Failure(
            "repo_missing",
            f"there is no git tree at {repo} on {endpoint.config.address}: {inside.complaint}",
            layer="remote_env",
            hint="Set vllm_ascend_repo for this endpoint in endpoints.toml.",
            retry_safe=True,
            phase="resolve",
        )
    changes = await git_text(endpoint, repo, "status", "--porcelain", "--untracked-files=normal")
    if changes:
        lines = changes.split("\n")
        shown = ", ".join(line.strip() for line in lines[:5]) + (" …" if len(lines) > 5 else "")
        raise Blocked(
            "tree_dirty",
            f"{repo} on {endpoint.config.address} has {len(lines)} uncommitted changes: {shown}",
            layer="remote_env",
            hint="Commit or stash them on the endpoint; nothing was touched.",
            retry_safe=True,
            phase="resolve",
        )
    head = await git(endpoint, repo, "symbolic-ref", "--quiet", "--short", "HEAD")
    shas = (await git_text(endpoint, repo, "rev-parse", "HEAD", "HEAD^{tree}")).split()
    return TreeState(head.text if head.code == 0 else None, shas[0], shas[1])


async def checkout(endpoint: Endpoint, repo: str, sha: str) -> None:
    """Put the tree at a commit with a detached head, and verify that it stands there. Cancellation waits for git.

    Raises: Failure.
    """
    found = None
    # git that is ended halfway leaves changed files behind a head that has not moved.
    with anyio.CancelScope(shield=True):
        await git_text(endpoint, repo, "checkout", "--quiet", "--detach", sha, timeout_s=300)
        found = await git_text(endpoint, repo, "rev-parse", "HEAD")
    if found != sha:
        raise Failure(
            "checkout_wrong", f"{repo} stands at {found} instead of {sha}", layer="remote_env", phase="checkout"
        )


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

    The record is on disk at ``path`` before anything changes: should this process be killed, ``put_back`` does it.

    Raises: CleanupFailed when it cannot be put back; an error of the block is then named in it.
    """
    save(path, record)
    problem: BaseException | None = None
    try:
        yield
    except BaseException as error:
        problem = error
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await _restore(ctx, endpoint, record, path, problem)


async def put_back(ctx: Context, path: Path) -> str | None:
    """Put back the tree that a killed run left changed; return a sentence about it, None when there was nothing to do.

    A tree that stands somewhere else by now was moved by somebody else and is left alone.

    Raises: CleanupFailed. Failure of the endpoint or of the record.
    """
    record = load(path, TreeRecord)
    if record.put_back:
        return None
    endpoint = await connected(ctx, present(ctx.state_dir, record.endpoint))
    head = await git_text(endpoint, record.repo, "rev-parse", "HEAD")
    place = f"{record.repo} on {endpoint.config.address}"
    if head != record.sha and head not in record.ours:
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
            why = await _checked_back(await renewed(ctx, endpoint), record)
        except Failure as failure:
            why = failure.message
    if why is None:
        save(path, record.model_copy(update={"put_back": True}))
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


async def _checked_back(endpoint: Endpoint, record: TreeRecord) -> str | None:
    """Check out what was there before; return None when the tree is as it was, else what is different.

    Raises: Failure of git.
    """
    target = [record.branch] if record.branch else ["--detach", record.sha]
    await git_text(endpoint, record.repo, "checkout", "--quiet", *target, timeout_s=RESTORE_S)
    shas = (await git_text(endpoint, record.repo, "rev-parse", "HEAD", "HEAD^{tree}")).split()
    if shas != [record.sha, record.tree]:
        return f"it stands at {shas[0]}"
    changes = await git_text(endpoint, record.repo, "status", "--porcelain", "--untracked-files=no")
    return f"it has changes in {changes.split()[1]}" if changes else None

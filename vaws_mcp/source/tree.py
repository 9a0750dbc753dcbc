"""Changing a tree on the endpoint, and putting it back."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, CleanupFailed, Failure
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.source.git import git, git_text

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


@asynccontextmanager
async def restored(ctx: Context, endpoint: Endpoint, repo: str, before: TreeState) -> AsyncGenerator[None]:
    """Put the tree back to where it was when the block ends, also after failure and cancellation.

    Raises: CleanupFailed when it cannot be put back; an error of the block is then named in it.
    """
    problem: BaseException | None = None
    try:
        yield
    except BaseException as error:
        problem = error
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await _restore(ctx, endpoint, repo, before, problem)


async def _restore(
    ctx: Context, endpoint: Endpoint, repo: str, before: TreeState, problem: BaseException | None
) -> None:
    why = "it took too long"
    with anyio.move_on_after(RESTORE_S):
        try:
            await ctx.progress("restore", f"putting {repo} back to {before.branch or before.sha[:12]}")
            again = await renewed(ctx, endpoint)
            await git_text(again, repo, "checkout", "--quiet", *_target(before), timeout_s=RESTORE_S)
            shas = (await git_text(again, repo, "rev-parse", "HEAD", "HEAD^{tree}")).split()
            changes = await git_text(again, repo, "status", "--porcelain", "--untracked-files=no")
            if shas == [before.sha, before.tree] and not changes:
                return
            why = f"it has changes in {changes.split()[1]}" if changes else f"it stands at {shas[0]}"
        except Failure as failure:
            why = failure.message
    after = f" (after: {problem})" if isinstance(problem, Failure) else ""
    failure = CleanupFailed(
        "restore_failed",
        f"{repo} on {endpoint.config.address} could not be put back to {before.branch or before.sha}: {why}{after}",
        layer="remote_env",
        hint=f"On the endpoint: git -C {repo} checkout {before.branch or before.sha}",
        retry_safe=True,
        phase="restore",
    )
    raise failure.carrying(**problem.fields) if isinstance(problem, Failure) else failure


def _target(before: TreeState) -> list[str]:
    return [before.branch] if before.branch else ["--detach", before.sha]

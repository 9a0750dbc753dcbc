"""Making a tree of an endpoint equal to a local one. Equal tree hashes, read from disk on both sides, are the proof."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.source.local import LocalTree, Missing, RemoteStore, candidates, here, local_tree, missing, module_names
from vaws_mcp.source.models import Kept, TreeSync
from vaws_mcp.source.packs import Target, deliver
from vaws_mcp.worker.engine.tree.snapshot import MOST_NAMED, differences
from vaws_mcp.worker.engine.tree.state import known

LOOK_S = 120.0
MATERIALISE_S = 600.0
BLOCKING = frozenset({"tree_dirty", "tree_unfinished", "tree_locked", "would_overwrite", "reservation_gone"})


@dataclass(frozen=True)
class Wish:
    """How to make a tree equal. ``who`` is the name in the tree's lock, and the last part of our refs.

    With ``keep`` uncommitted work on the endpoint is moved to a ref instead of refused. ``reservation`` is the id of a
    reservation of ours that holds the tree.
    """

    who: str
    keep: bool = False
    reservation: str | None = None

    @property
    def ref(self) -> str:
        """Where the endpoint remembers what it was made equal to."""
        return f"refs/vaws/sync/{self.who}"


@dataclass(frozen=True)
class _Comparison:
    """What one look at both sides has told."""

    repo: str
    source: Path
    local: LocalTree
    remote: Mapping[str, Any]
    lacking: dict[str, Missing]

    @property
    def equal(self) -> bool:
        return self.remote["trees"] is None


async def sync_tree(ctx: Context, endpoint: Endpoint, repo: str, source: Path, wish: Wish) -> TreeSync:
    """Make the tree ``repo`` of an endpoint equal to the local tree ``source``; nothing changed costs one round trip.

    Raises: Blocked ``tree_dirty``, ``tree_locked``, ``would_overwrite``; Failure of git, of the transfer, or
    ``tree_differs`` when the tree does not come out equal (it is put back then).
    """
    async with local_tree(source) as local:
        seen = await _compare(endpoint, repo, source, local)
        warn_left_out(ctx, local)
        if seen.equal:
            return _report(seen, "unchanged")
        if seen.remote["changes"]["count"] and not wish.keep:
            raise _dirty(endpoint, repo, seen.remote)
        sent = await _send(ctx, endpoint, seen)
        await ctx.progress("materialise", f"checking {local.now.tree[:12]} out in {repo}")
        done = await _materialise(endpoint, seen, wish)
        return _report(seen, "synced", sent, done)


async def plan_sync(ctx: Context, endpoint: Endpoint, repo: str, source: Path) -> TreeSync:
    """Look at both sides and say what ``sync_tree`` would do. Nothing is sent or changed.

    Raises: Failure of git or of the endpoint.
    """
    async with local_tree(source) as local:
        warn_left_out(ctx, local)
        seen = await _compare(endpoint, repo, source, local)
        if seen.equal:
            return _report(seen, "unchanged")
        report = _report(seen, "planned")
        foreseen = await here(_foreseen, seen)
        if foreseen is not None:
            report.changed, report.changed_files = len(foreseen), foreseen[:MOST_NAMED]
        return report


def _foreseen(seen: _Comparison) -> list[str] | None:
    """Return what would change on the endpoint, when this machine knows the commit that its tree stands at."""
    git, head = seen.local.at(""), str(seen.remote["head"])
    if not known(git, [head]):
        return None
    return [f"{kind} {path}" for kind, path in differences(git, head, seen.local.now.tree)]


async def _compare(endpoint: Endpoint, repo: str, source: Path, local: LocalTree) -> _Comparison:
    whole = local.now.whole()
    asked = {path: await here(candidates, local.at(path), one) for path, one in whole.items()}
    params = {"repo": repo, "expect": local.now.tree, "candidates": asked, **policy_params(endpoint.config)}
    remote = (await endpoint.call("tree.state", params, deadline_s=LOOK_S)).result
    lacking: dict[str, Missing] = {}
    if remote["trees"] is None:
        return _Comparison(repo, source, local, remote, lacking)
    for path, one in whole.items():
        row = remote["trees"].get(path)
        store = None if row is None else RemoteStore(frozenset(row["have"]), tuple(row["tips"]), bool(row["shallow"]))
        found = await here(missing, local.at(path), one, store, asked[path])
        if found is not None or row is None:
            lacking[path] = found or Missing(one.commit, (), (one.head,))
    return _Comparison(repo, source, local, remote, lacking)


def warn_left_out(ctx: Context, local: LocalTree) -> None:
    """Say what of the local tree does not travel although git would notice it."""
    for path, one in local.now.whole().items():
        inside = f"{path}/" if path else ""
        for name in one.embedded:
            ctx.warn(f"{inside}{name} is a git repository of its own and no submodule; it does not travel")
        if one.left_out:
            shown = ", ".join(inside + name for name in one.left_out[:5])
            ctx.warn(f"built outputs travel only as committed: {shown}{' …' if len(one.left_out) > 5 else ''}")


async def _send(ctx: Context, endpoint: Endpoint, seen: _Comparison) -> int:
    """Send what is missing, outer trees first; return how much it was. Units: bytes."""
    sent = 0
    for path in sorted(seen.lacking):
        outer = max((one for one in seen.local.now.whole() if one != path and _within(path, one)), key=len, default="")
        names = await here(module_names, seen.local.at(outer)) if path else {}
        target = Target(seen.repo, path, names.get(path.removeprefix(f"{outer}/" if outer else ""), path))
        sent += await deliver(ctx, endpoint, target, seen.local.at(path), seen.lacking[path])
    return sent


def _within(path: str, outer: str) -> bool:
    return not outer or path.startswith(outer + "/")


async def _materialise(endpoint: Endpoint, seen: _Comparison, wish: Wish) -> dict[str, Any]:
    commits = {path: one.commit for path, one in seen.local.now.whole().items()}
    return await materialise(endpoint, seen.repo, commits, seen.local.now.tree, wish)


async def materialise(
    endpoint: Endpoint, repo: str, commits: dict[str, str], tree: str | None, wish: Wish, *, remember: bool = True
) -> dict[str, Any]:
    """Check out commits that the endpoint has in a tree and its submodules (``""`` is the tree itself).

    ``tree`` is the hash that must come of it; None for that of the commit.

    Raises: Blocked and Failure as ``sync_tree``.
    """
    params = {
        "repo": repo,
        "commits": commits,
        "tree": tree,
        "ref": wish.ref if remember else None,
        "keep": wish.keep,
        "kept_ref": f"refs/vaws/kept/{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}",
        "who": wish.who,
        "reservation": wish.reservation,
        **policy_params(endpoint.config),
    }
    try:
        answer = await endpoint.call("tree.materialise", params, deadline_s=MATERIALISE_S, retry_safe=True)
    except Failure as failure:
        raise as_blocked(failure) from None
    return answer.result


def as_blocked(failure: Failure) -> Failure:
    """Return a worker's refusal as Blocked when it is the world that forbids the call now."""
    if failure.code not in BLOCKING:
        return failure
    return Blocked(
        failure.code,
        failure.message,
        layer=failure.layer,
        hint=failure.hint,
        retry_safe=True,
        phase=failure.phase,
        fields=failure.fields,
    )


def _dirty(endpoint: Endpoint, repo: str, remote: Mapping[str, Any]) -> Blocked:
    names = [path for _kind, path in remote["changes"]["first"]]
    count = remote["changes"]["count"]
    shown = ", ".join(names[:5]) + (" …" if count > 5 else "")
    return Blocked(
        "tree_dirty",
        f"{repo} on {endpoint.config.address} has {count} uncommitted changes: {shown}",
        layer="remote_env",
        hint="Commit them on the endpoint, or repeat with keep_remote=true (--keep-remote) to move them to a ref of "
        "ours; nothing was touched.",
        retry_safe=True,
        phase="compare",
        fields={"dirty": names},
    )


def _report(seen: _Comparison, status: str, sent: int = 0, done: Mapping[str, Any] | None = None) -> TreeSync:
    local, remote = seen.local.now, seen.remote
    changed: Mapping[str, Any] = done["changed"] if done else {"count": 0, "first": []}
    pending = (done or remote)["pending_rebuild"]
    return TreeSync(
        status=status,
        repo=seen.repo,
        source=str(seen.source),
        local_tree=local.tree,
        remote_tree=done["tree"] if done else remote["tree"],
        equal=bool(done or seen.equal),
        commit=local.commit,
        local_head=local.head,
        local_changes=len(local.changes),
        remote_head_before=remote["head"],
        remote_branch_before=remote["branch"],
        remote_head=done["head"] if done else remote["head"],
        remote_changes=[path for _kind, path in remote["changes"]["first"]],
        changed=None if status == "planned" else changed["count"],
        changed_files=[f"{kind} {path}" for kind, path in changed["first"]],
        bytes_sent=sent,
        lacking=sorted(path or "." for path in seen.lacking),
        kept=[Kept(**one) for one in (done["kept"] if done else [])],
        native_inputs_changed=bool(pending),
        native_inputs=pending["inputs"] if pending else [],
        rebuild=pending["rebuild"] if pending else [],
    )

"""Commits that the endpoint cannot fetch itself: this machine fetches them and sends what the endpoint lacks."""

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from vaws_mcp.core.context import Context
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.source.local import LocalTree, RemoteStore, candidates, here, missing
from vaws_mcp.source.packs import Target, deliver
from vaws_mcp.worker.engine.tree.git import Git, failed
from vaws_mcp.worker.engine.tree.snapshot import Objects, Snapshot
from vaws_mcp.worker.refusal import Refusal

LOOK_S = 120.0
_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Laptop:
    """The local tree that may fetch for the endpoint."""

    ctx: Context
    source: Path


@dataclass(frozen=True)
class Fetched:
    """A commit that is on the endpoint now, and the remote it came from."""

    sha: str
    remote: str


async def fetch_for(laptop: Laptop, endpoint: Endpoint, repo: str, name: str, ref: str) -> Fetched:
    """Fetch the remote's ``name`` here and put it on the endpoint under ``ref``. Its own refs stay.

    Raises: Failure of git, with layer local, or of the transfer.
    """
    with tempfile.TemporaryDirectory(prefix="vaws-fetch-") as scratch:
        objects = Objects(scratch)
        git = await here(Git, str(laptop.source), dict(os.environ))
        fetched = await here(_fetch, objects.of(git), name)
        await _send(
            laptop.ctx, endpoint, repo, LocalTree(git, objects, await here(_as_snapshot, git, fetched.sha)), ref
        )
        return fetched


def _fetch(git: Git, name: str) -> Fetched:
    remote = remote_of(git.text("remote").split())
    if remote is None:
        raise Refusal("ref_unknown", f"{git.top} has no remote upstream or origin", hint="Add one.")
    asked = name if _SHA.fullmatch(name) else _advertised(git, remote, name)
    ended = git.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", remote, asked)
    if ended.code != 0:
        raise failed(git.top, "fetch", ended)
    return Fetched(git.text("rev-parse", "--verify", "--end-of-options", f"{asked}^{{commit}}"), remote)


def _advertised(git: Git, remote: str, name: str) -> str:
    """Return the object that the remote has under a name; without a ref of ours its id is the only way to name it."""
    rows = [line.split("\t") for line in git.text("ls-remote", remote, name, f"{name}^{{}}").splitlines()]
    by_name = {row[1]: row[0] for row in rows if len(row) == 2}
    for full in (f"refs/heads/{name}", name, f"refs/tags/{name}^{{}}", f"refs/tags/{name}"):
        if full in by_name:
            return by_name[full]
    raise Refusal("ref_unknown", f"{remote} of {git.top} has no {name}", hint="Give a sha, branch, tag or pr:N.")


def remote_of(names: list[str]) -> str | None:
    """Return the remote that refs are fetched from: upstream, else origin."""
    return next((name for name in ("upstream", "origin") if name in names), None)


def _as_snapshot(git: Git, sha: str) -> Snapshot:
    """Return a commit as if a tree stood at it."""
    shallow = git.text("rev-parse", "--is-shallow-repository") == "true"
    return Snapshot(git.top, sha, sha, None, sha, sha, [], {}, {}, [], [], shallow)


async def _send(ctx: Context, endpoint: Endpoint, repo: str, local: LocalTree, ref: str) -> None:
    asked = await here(candidates, local.at(""), local.now)
    params = {"repo": repo, "candidates": {"": asked}, **policy_params(endpoint.config)}
    row = (await endpoint.call("tree.state", params, deadline_s=LOOK_S)).result["trees"][""]
    store = RemoteStore(frozenset(row["have"]), tuple(row["tips"]), bool(row["shallow"]))
    lacking = await here(missing, local.at(""), local.now, store, asked)
    if lacking is not None:
        await deliver(ctx, endpoint, Target(repo, ref=ref), local.at(""), lacking)

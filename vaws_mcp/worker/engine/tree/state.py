"""``tree.state``: where a tree and its submodules stand, their hash and their changes, in one answer."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Dict, List, Optional

from ...request import Answer, Request
from .git import Git
from .native_inputs import pending_rebuild
from .place import git_of
from .snapshot import MOST_NAMED, Objects, Snapshot, take

_MOST_TIPS = 64


def state(request: Request) -> Answer:
    """Answer with a tree as it stands: its hash, its changes, and what a sender needs to know.

    Params: repo; expect, the hash a caller hopes for: when it is found, with all submodules, ``trees`` is null;
    candidates, by submodule path (``""`` is the tree itself) commits that the caller has and asks about.
    """
    git = git_of(request, for_write=False)
    expect = request.params.optional_text("expect")
    candidates = request.params.mapping("candidates")
    with tempfile.TemporaryDirectory(prefix="vaws-objects-") as scratch:
        now = take(git, Objects(scratch))
    result: Dict[str, Any] = {
        "head": now.head,
        "branch": now.branch,
        "head_tree": now.head_tree,
        "tree": now.tree,
        "changes": changes_json(now),
        "embedded": now.embedded,
        "pending_rebuild": pending_rebuild(git.top),
        "trees": None,
    }
    whole = now.whole()
    # A submodule that is not checked out has no tree, so the hash alone does not tell that it is there.
    if now.tree != expect or any(path not in whole for path in candidates):
        result["trees"] = {path: _row(git, one, candidates.get(path)) for path, one in whole.items()}
    return result, b""


def changes_json(now: Snapshot) -> Dict[str, Any]:
    """Return changes as JSON: how many, and the first of them."""
    return {"count": len(now.changes), "first": [list(change) for change in now.changes[:MOST_NAMED]]}


def _row(git: Git, one: Snapshot, candidates: Any) -> Dict[str, Any]:
    here = git.at(one.top)
    asked = [str(oid) for oid in candidates] if isinstance(candidates, list) else []
    return {"head": one.head, "shallow": one.shallow, "tips": tips(here, one.head), "have": known(here, asked)}


def tips(git: Git, head: Optional[str]) -> List[str]:
    """Return HEAD and the newest refs: what a sender may leave out when it knows them."""
    words = ("--sort=-committerdate", f"--count={_MOST_TIPS}", "--format=%(objectname) %(objecttype)")
    rows = (line.split() for line in git.text("for-each-ref", *words).splitlines())
    found = [oid for oid, kind in rows if kind == "commit"]
    return list(dict.fromkeys([*([head] if head else []), *found]))


def known(git: Git, oids: List[str]) -> List[str]:
    """Return which of the commits are in the store of a tree."""
    if not oids:
        return []
    lines = git.text("cat-file", "--batch-check", stdin=os.fsencode("\n".join(oids) + "\n")).splitlines()
    return [line.split()[0] for line in lines if line.endswith(tuple("0123456789")) and line.split()[1] == "commit"]

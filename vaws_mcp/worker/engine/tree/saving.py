"""Uncommitted work under a ref of ours: saved, taken out of the way, and put back exactly, the index included."""

from __future__ import annotations

import hashlib
import os
import tempfile
from typing import Any, Dict, List, NamedTuple, Optional

from ...refusal import Refusal
from ...supervisor.trees import git_dir_of
from ..atomic import replace_file
from . import line_ends
from .git import Git, failed
from .snapshot import Objects, Snapshot, bring_up, make_commit, moved_links, take
from .status import read_status

INDEX_SUFFIX = "-index"


class Saved(NamedTuple):
    """Work saved from the tree at ``path`` (relative to the outermost one): its commit, and where HEAD stood.

    ``index_blob`` is the saved index file as a blob, ``stages`` a digest of what it lists.
    """

    path: str
    ref: str
    commit: str
    tree: str
    head: str
    branch: Optional[str]
    index_blob: str
    stages: str


# What git keeps in its directory while it waits for a person; a checkout would drop some of it.
_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}


def require_settled(git: Git) -> None:
    """Refuse a tree in which git waits for somebody to finish what they began.

    Raises: Refusal ``tree_unfinished``.
    """
    git_dir = git_dir_of(git.top)
    for name, what in _UNFINISHED.items():
        if os.path.lexists(os.path.join(git_dir, name)):
            hint = f"Finish or abort it on the endpoint (git {what} --abort); nothing was touched."
            raise Refusal("tree_unfinished", f"a {what} is under way in {git.top}", hint=hint)


def from_json(value: Dict[str, Any]) -> Saved:
    """Return saved work as a record tells it. Raises: TypeError for other fields."""
    return Saved(**value)


def save(git: Git, path: str, ref: str) -> Saved:
    """Save tracked, staged and untracked work under ``ref``. Nothing else changes.

    Raises: Refusal of git, ``ref_exists``.
    """
    if git.run("rev-parse", "--verify", "--quiet", ref).code == 0:
        raise Refusal("ref_exists", f"{ref} exists already in {git.top}", hint="Nothing was saved or changed.")
    work = take(git, Objects(), deep=False)
    index_path = os.path.join(git_dir_of(git.top), "index")
    blob = git.text("hash-object", "-w", "--no-filters", "--", index_path)
    parents = [work.head, *_index_commit(git, index_path, work.head)]
    subject = f"work in progress on {work.branch or work.head[:12]}"
    commit = make_commit(git, work.tree, parents, subject)
    line_ends.save_bytes(git, work.tree, ref + line_ends.SUFFIX)
    for name, oid in ((ref + INDEX_SUFFIX, blob), (ref, commit)):
        git.out("update-ref", name, oid, "")
    return Saved(path, ref, commit, work.tree, work.head, work.branch, blob, stages_of(git))


def _index_commit(git: Git, index_path: str, head: str) -> List[str]:
    """Keep what is only staged alive. An index with conflicts has no tree; its file is saved all the same."""
    with tempfile.TemporaryDirectory(prefix="vaws-index-") as folder:
        copy = os.path.join(folder, "index")
        with open(index_path, "rb") as source, open(copy, "wb") as target:
            target.write(source.read())
        ended = git.with_env(GIT_INDEX_FILE=copy).run("write-tree")
    if ended.code != 0:
        return []
    return [make_commit(git, ended.out.decode().strip(), [head], "index")]


def stages_of(git: Git) -> str:
    """Return a digest of everything that the index lists."""
    return hashlib.sha256(git.out("ls-files", "--stage", "-v", "-z")).hexdigest()


def clear(git: Git, saved: Saved) -> None:
    """Take saved work out of the way: the tree stands clean at its commit then, with a detached head.

    At each moment all work is on disk or in the saved commit; when it fails the tree is as it was.

    Raises: Refusal of git.
    """
    index = _read_index(git)
    try:
        work = take(git, Objects(), deep=False)
        status = read_status(git)
        bring_up(git, status, moved_links(status, work.links))
        _require_tree(git, saved.tree)
        git.out("update-ref", "--no-deref", "HEAD", saved.commit)
        switch(git, saved.head)
    except Refusal:
        _point_head(git, saved.head, saved.branch)
        _write_index(git, index)
        raise


def _require_tree(git: Git, tree: str) -> None:
    if git.text("write-tree") != tree:
        raise Refusal("tree_moving", f"{git.top} changed while its work was saved", hint="Repeat this call.")


def restore(git: Git, saved: Saved) -> None:
    """Put saved work back and check it. It may be repeated.

    Raises: Refusal as ``put`` and ``check_back``.
    """
    put(git, saved)
    check_back(git, saved)
    forget(git, saved)


def put(git: Git, saved: Saved) -> None:
    """Put saved work back: files, index and branch.

    Raises: Refusal ``tree_dirty`` when there is other work now, or of git.
    """
    now = take(git, Objects(), deep=False)
    if now.tree != saved.tree:
        # Submodules move on their own.
        others = [change.path for change in now.changes if change.path not in now.links]
        if others:
            raise dirty(git.top, others)
        switch(git, saved.commit)
    line_ends.restore_bytes(git, saved.ref + line_ends.SUFFIX)
    index = git.out("cat-file", "blob", saved.index_blob)
    _point_head(git, saved.head, saved.branch)
    _write_index(git, index)
    git.run("update-index", "-q", "--refresh")


def check_back(git: Git, saved: Saved) -> None:
    """Make sure that files, index and branch are as they were saved.

    Raises: Refusal ``restore_differs``; the saved work stays.
    """
    problem = _difference(git, saved)
    if problem:
        raise Refusal(
            "restore_differs",
            f"{git.top} is not as it was: {problem}",
            hint=f"The work is kept: git -C {git.top} show {saved.ref}",
        )


def forget(git: Git, saved: Saved) -> None:
    """Drop the refs of saved work that is back."""
    for name in (saved.ref, saved.ref + INDEX_SUFFIX, saved.ref + line_ends.SUFFIX):
        if git.run("rev-parse", "--verify", "--quiet", name).code == 0:
            git.out("update-ref", "-d", name)


def _difference(git: Git, saved: Saved) -> Optional[str]:
    now = take(git, Objects(), deep=False)
    if now.head != saved.head or now.branch != saved.branch:
        return f"its branch {saved.branch} was moved to {now.head[:12]} meanwhile"
    if now.tree != saved.tree:
        return "its files differ"
    return None if stages_of(git) == saved.stages else "its index differs"


def _point_head(git: Git, head: str, branch: Optional[str]) -> None:
    if branch is None:
        git.out("update-ref", "--no-deref", "HEAD", head)
    else:
        git.out("symbolic-ref", "HEAD", f"refs/heads/{branch}")


def _read_index(git: Git) -> bytes:
    with open(os.path.join(git_dir_of(git.top), "index"), "rb") as stream:
        return stream.read()


def _write_index(git: Git, content: bytes) -> None:
    replace_file(os.path.join(git_dir_of(git.top), "index"), content, mode=0o644)


def switch(git: Git, commit: str) -> None:
    """Check out a commit with a detached head. Untracked and ignored files in its way are never overwritten.

    Raises: Refusal ``would_overwrite`` that names them, or of git.
    """
    ended = git.run("checkout", "--quiet", "--detach", "--no-overwrite-ignore", commit)
    if ended.code == 0:
        return
    refusal = failed(git.top, "checkout", ended)
    if "would be overwritten" in ended.said or "would lose" in ended.said:
        refusal.code = "would_overwrite"
        refusal.message = f"{git.top} has files of its own in the way: {ended.said}"
        refusal.hint = "Move them away on the endpoint; nothing was changed."
    raise refusal


def dirty(top: str, names: List[str]) -> Refusal:
    """Return the refusal for a tree with work of its own."""
    shown = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
    return Refusal(
        "tree_dirty",
        f"{top} has {len(names)} uncommitted changes: {shown}",
        hint="Commit them on the endpoint, or ask for them to be kept; nothing was touched.",
        details={"dirty": names[:200]},
    )


def keep_unreachable(git: Git, work: Snapshot, ref: str) -> Optional[str]:
    """Give a ref to a HEAD that no other ref leads to, for a checkout would leave it to be collected."""
    if work.branch is not None:
        return None
    for question in ("--points-at", "--contains"):  # the first is quick, and often enough
        if git.out("for-each-ref", "--count=1", question, work.head):
            return None
    git.out("update-ref", ref, work.head)
    return ref

"""``tree.materialise``: make a tree and its submodules stand at commits that are here, all of them or none."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ...refusal import Refusal
from ...request import Answer, Request
from ...supervisor.trees import exclusive
from ..confine import confined
from . import native_inputs
from .git import Git
from .place import git_of, our_ref
from .saving import Saved, clear, dirty, keep_unreachable, require_settled, restore, save, switch
from .snapshot import Change, Objects, Snapshot, differences, is_populated, links_of, take
from .state import changes_json

MOST_NAMED = 50


class Goal(NamedTuple):
    """What is to be: commits by submodule path (``""`` is the tree itself), and the tree that shall come of it."""

    commits: Dict[str, str]
    tree: str


def materialise(request: Request) -> Answer:
    """Check out commits in a tree and its submodules with detached heads, under the tree's lock.

    Params: repo; commits, by submodule path; tree, the hash that the whole must have then, or null for that of the
    commit; ref, a ref of ours that is set to each commit, or null; keep, whether work in the tree is moved to
    ``kept_ref`` instead of refused; who; reservation. Work of the tree is never lost.
    Raises: Refusal ``tree_dirty``, ``tree_unfinished``, ``tree_locked``, ``would_overwrite``, ``submodule_missing``,
    ``tree_differs``.
    """
    params = request.params
    git = git_of(request, for_write=True, cancellable=False)
    goal = Goal(
        {str(path): str(oid) for path, oid in params.mapping("commits").items()}, params.optional_text("tree") or ""
    )
    ref = our_ref(request, "ref") if params.optional_text("ref") else None
    work = _Work(git, goal, our_ref(request, "kept_ref"), ref)
    request.check()
    allow = partial(confined, request, for_write=True)
    with exclusive(git.top, params.text("who"), params.optional_text("reservation")):
        return work.carry_out(allow, keep=params.flag("keep")), b""


class _Work:
    """One change of a tree, which can be taken back as long as it is not complete."""

    def __init__(self, git: Git, goal: Goal, kept_ref: str, ref: Optional[str]) -> None:
        self._git = git
        self._goal = goal
        self._kept_ref = kept_ref
        self._ref = ref
        self._back: List[Callable[[], None]] = []
        self._kept: List[Dict[str, Any]] = []

    def carry_out(self, allow: Callable[[str], str], *, keep: bool) -> Dict[str, Any]:
        before = take(self._git, Objects())
        if before.changes and not keep:
            raise dirty(self._git.top, [change.path for change in before.changes])
        commits = self._complete(before)
        for path, one in before.whole().items():
            if path in commits:
                require_settled(self._git.at(one.top))
        self._check_allowed(before, commits, allow)
        try:
            for path, commit in commits.items():
                self._move(before, path, commit)
            after = take(self._git, Objects())
            self._verify(after)
        except (Refusal, OSError):
            self._take_back()
            raise
        if self._ref is not None:
            for path, commit in commits.items():
                self._at(path).out("update-ref", self._ref, commit)
        changed = native_inputs.filtered(differences(self._git, before.tree, after.tree))
        pending = native_inputs.note_pending(self._git, before, changed)
        return {
            "before": {"head": before.head, "branch": before.branch, "tree": before.tree},
            "head": after.head,
            "tree": after.tree,
            "kept": self._kept,
            "changed": changes_json(after._replace(changes=differences(self._git, before.tree, after.tree))),
            "native_changed": changed,
            "pending_rebuild": pending,
        }

    def _check_allowed(self, before: Snapshot, commits: Dict[str, str], allow: Callable[[str], str]) -> None:
        """Refuse to write a file that the endpoint's policy denies, before anything is changed."""
        there = before.whole()
        for path, commit in commits.items():
            git = self._at(path)
            if path in there:
                for change in differences(git, there[path].head, commit):
                    allow(os.path.join(git.top, change.path))

    def _at(self, path: str) -> Git:
        return self._git.at(os.path.join(self._git.top, path)) if path else self._git

    def _complete(self, before: Snapshot) -> Dict[str, str]:
        """Add the submodules that are checked out here and have to move, though their content did not come along."""
        commits = dict(self._goal.commits)
        there = before.whole()
        todo = [""]
        while todo:
            outer = todo.pop()
            for path, oid in self._links(outer, commits.get(outer) or there[outer].head).items():
                inner = os.path.join(outer, path) if outer else path
                if inner not in commits and inner in there and there[inner].commit != oid:
                    self._require(inner, oid)
                    commits[inner] = oid
                if inner in commits or inner in there:
                    todo.append(inner)
        return dict(sorted(commits.items()))

    def _links(self, path: str, commit: str) -> Dict[str, str]:
        git = self._at(path)
        return links_of(git, commit) if is_populated(git.top) else {}

    def _require(self, path: str, oid: str) -> None:
        if self._at(path).run("cat-file", "-e", f"{oid}^{{commit}}").code != 0:
            raise Refusal(
                "submodule_missing",
                f"submodule {path} has to stand at {oid[:12]}, which it lacks here",
                hint=f"Check it out where you work (git submodule update --init {path}), then repeat this call.",
            )

    def _move(self, before: Snapshot, path: str, commit: str) -> None:
        git = self._at(path)
        now = before.whole().get(path)
        if now is None:  # a submodule that was not checked out so far
            switch(git, commit)
            return
        saved: Optional[Saved] = None
        if now.own_changes:
            saved = self._keep(git, path)
        kept = keep_unreachable(git, now, f"{self._kept_ref}-head")
        if kept is not None:
            self._kept.append({"path": path, "ref": kept, "commit": now.head})
        if saved is None:
            self._back.append(lambda: _back(git, now))
        else:
            self._back.append(lambda: restore(git, saved))
        switch(git, commit)

    def _keep(self, git: Git, path: str) -> Saved:
        saved = save(git, path, self._kept_ref)
        clear(git, saved)
        self._kept.append({"path": path, "ref": saved.ref, "commit": saved.commit})
        return saved

    def _take_back(self) -> None:
        for step in reversed(self._back):
            step()

    def _verify(self, after: Snapshot) -> None:
        goal = self._goal.tree or after.head_tree
        if after.tree == goal and not after.changes:
            return
        differing: List[Change] = list(after.changes)
        if self._git.run("cat-file", "-e", goal).code == 0:
            differing += differences(self._git, goal, after.tree)
        names = sorted({change.path for change in differing})
        raise Refusal(
            "tree_differs",
            f"{self._git.top} does not come out as it should; it was put back. Differing: {', '.join(names[:5])}",
            hint="Filters or line ends may be set up otherwise here: compare git config and .gitattributes.",
            details={"differing": names[:MOST_NAMED], "tree": after.tree, "expected": goal},
        )


def _back(git: Git, before: Snapshot) -> None:
    switch(git, before.head)
    if before.branch is not None:
        git.out("symbolic-ref", "HEAD", f"refs/heads/{before.branch}")

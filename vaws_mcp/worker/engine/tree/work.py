"""``tree.stash``, ``tree.clear``, ``tree.unstash``, ``tree.patch``: work put aside and back, and a patch on top."""

from __future__ import annotations

import os
import re
from typing import Any, ContextManager, Dict, List, Optional

from ...refusal import Refusal, bad_request
from ...request import Answer, Request
from ...supervisor.trees import exclusive
from .git import Ended, Git
from .place import git_of, our_ref
from .saving import Saved, check_back, dirty, forget, from_json, put, require_settled, save, switch
from .saving import clear as take_away
from .snapshot import Objects, Snapshot, links_of, take

_FAILED = re.compile(r"patch failed: (?P<path>.+?):(?P<line>\d+)(?:;|$)")
_HUNK = re.compile(rb"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


def stash(request: Request) -> Answer:
    """Save a tree's work and that of its submodules under ``ref``; answer {saved: [...]}, empty when it is clean.

    Nothing changes but refs: whoever asks can write down what was saved before ``tree.clear`` takes it out of the way.
    Params: repo, ref, who, reservation. Raises: Refusal ``ref_exists``, ``tree_locked``, or of git.
    """
    git = git_of(request, for_write=True, cancellable=False)
    ref = our_ref(request, "ref")
    with _locked(request, git):
        now = take(git, Objects())
        goals = _goals(git, now)
        for one in now.whole().values():
            require_settled(git.at(one.top))
        saved = [
            save(git.at(one.top), path, ref)
            for path, one in now.whole().items()
            if one.own_changes or goals.get(path, one.head) != one.head
        ]
    return {"saved": [one._asdict() for one in saved]}, b""


def clear(request: Request) -> Answer:
    """Take work out of the way that ``tree.stash`` has saved: the tree stands clean at its commit then.

    Params: repo, saved, who, reservation.
    Raises: Refusal ``tree_moving`` when it changed since, ``tree_locked``, or of git; the tree is as it was then.
    """
    git = git_of(request, for_write=True, cancellable=False)
    saved = _saved(request)
    with _locked(request, git):
        goals = _goals(git, take(git, Objects()))
        done: List[Saved] = []
        try:
            for one in saved:
                here = _at(git, one)
                take_away(here, one)
                done.append(one)
                switch(here, goals.get(one.path, one.head))
        except Refusal:
            _put_back(git, done, drop=False)
            raise
        now = take(git, Objects())
        if now.changes:
            _put_back(git, done, drop=False)
            raise dirty(git.top, [change.path for change in now.changes])
    return {"tree": now.tree}, b""


def unstash(request: Request) -> Answer:
    """Put back what ``tree.stash`` answered, and check that files, index and branch are as they were.

    Params: repo, saved, who, reservation. Raises: Refusal ``tree_dirty``, ``restore_differs``, ``tree_locked``.
    """
    git = git_of(request, for_write=True, cancellable=False)
    saved = _saved(request)
    with _locked(request, git):
        _put_back(git, saved, drop=True)
    return {"tree": take(git, Objects()).tree}, b""


def _goals(git: Git, now: Snapshot) -> Dict[str, str]:
    """Return where the submodules stand in a clean tree: at what the commit around them names."""
    found: Dict[str, str] = {}
    for outer, one in now.whole().items():
        for path, oid in links_of(git.at(one.top), one.head).items():
            found[os.path.join(outer, path) if outer else path] = oid
    return found


def _put_back(git: Git, saved: List[Saved], *, drop: bool) -> None:
    places = [(_at(git, one), one) for one in saved]
    for here, one in places:
        put(here, one)
    for here, one in places:
        check_back(here, one)
    for here, one in places if drop else ():
        forget(here, one)


def _at(git: Git, one: Saved) -> Git:
    return git.at(os.path.join(git.top, one.path)) if one.path else git


def _locked(request: Request, git: Git) -> ContextManager[None]:
    return exclusive(git.top, request.params.text("who"), request.params.optional_text("reservation"))


def _saved(request: Request) -> List[Saved]:
    given: Any = request.params.values.get("saved")
    try:
        return [from_json(one) for one in given]
    except TypeError as error:
        raise bad_request(f"{request.method}: {error}") from None


def patch(request: Request) -> Answer:
    """Apply the patch in the body to files and index, or take it out again: all of it or nothing.

    Params: repo, reverse, who, reservation. Answer: {tree, files}.
    Raises: Refusal ``patch_mismatch`` that names file and hunk, ``patch_malformed``, ``tree_locked``.
    """
    git = git_of(request, for_write=True, cancellable=False)
    words = ["apply", "--index", "--whitespace=nowarn", *(["--reverse"] if request.params.flag("reverse") else [])]
    with _locked(request, git):
        git.run("update-index", "-q", "--refresh")
        ended = git.run(*words, "-", stdin=request.body)
        if ended.code != 0:
            raise _unfit(git, ended, request.body, reverse=request.params.flag("reverse"))
        listed = git.out("apply", "--numstat", "-z", "-", stdin=request.body).split(b"\0")
        files = [os.fsdecode(line.split(b"\t", 2)[2]) for line in listed if line.count(b"\t") >= 2]
        tree = take(git, Objects()).tree
    return {"tree": tree, "files": files}, b""


def _unfit(git: Git, ended: Ended, body: bytes, *, reverse: bool) -> Refusal:
    match = _FAILED.search(ended.said)
    if match is None:
        code = "patch_malformed" if "corrupt" in ended.said or "No valid patches" in ended.said else "patch_mismatch"
        return Refusal(code, f"git apply in {git.top}: {ended.said}", "caller", hint="Nothing was changed.")
    details: Dict[str, Any] = {"file": match["path"], "line": int(match["line"])}
    hunk = None if reverse else _hunk(body, match["path"], int(match["line"]))
    where = match["path"] if hunk is None else f"{match['path']}, hunk {hunk}"
    details["hunk"] = hunk
    hint = "Nothing was changed. Make the patch against this commit."
    message = f"the patch does not fit {git.top}: {where} (line {match['line']})"
    return Refusal("patch_mismatch", message, "caller", hint=hint, details=details)


def _hunk(body: bytes, path: str, line: int) -> Optional[int]:
    """Return the number of the hunk of a file that begins at a line, counted from 1."""
    inside, number = False, 0
    for row in body.split(b"\n"):
        if row.startswith(b"--- "):
            inside, number = row.rstrip().endswith(b"/" + os.fsencode(path)), 0
        elif row.startswith(b"+++ ") and not inside:
            inside = row.rstrip().endswith(b"/" + os.fsencode(path))
        elif inside and (match := _match(row)) is not None:
            number += 1
            if int(match) == line:
                return number
    return None


def _match(row: bytes) -> Optional[bytes]:
    found = _HUNK.match(row)
    return found[1] if found else None

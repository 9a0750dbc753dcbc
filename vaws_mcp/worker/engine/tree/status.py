"""What git says about a tree: one ``git status`` and one ``git ls-files``, read exactly."""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Optional, Set

from .deny import is_denied
from .git import Git

NOTHING = "000000"
GITLINK = "160000"
NO_ID = "0" * 40


class Entry(NamedTuple):
    """An index entry to write: mode (``000000`` removes it), object id and path."""

    mode: str
    oid: str
    path: str


class Status(NamedTuple):
    """How a tree differs from its commit. All paths are relative to its top.

    ``gone`` and ``present`` are paths whose state on disk has to be read; ``staged`` are those whose index entry is not
    the commit's. ``undo`` are staged denied entries as the commit has them, ``left_out`` all denied paths that git
    tracks and that differ. ``embedded`` are repositories inside that are no submodules. ``links`` are the submodules of
    the index by path. ``assumed`` are files that git was told not to look at.
    """

    head: str
    branch: Optional[str]
    gone: List[str]
    present: List[str]
    staged: List[str]
    undo: List[Entry]
    embedded: List[str]
    left_out: List[str]
    links: Dict[str, str]
    assumed: List[str]
    unmerged: bool


def read_status(git: Git) -> Status:
    """Ask git how a tree differs from its commit.

    Raises: Refusal of git.
    """
    found = Status("", None, [], [], [], [], [], [], {}, [], False)
    words = ("--porcelain=v2", "-z", "--branch", "--no-ahead-behind", "--untracked-files=all", "--no-renames")
    records = os.fsdecode(git.out("status", *words, "--ignore-submodules=dirty")).split("\0")
    unmerged: Set[str] = set()
    for record in records:
        kind = record[:2]
        if kind == "# ":
            found = _header(found, record)
        elif kind == "1 ":
            _ordinary(found, record)
        elif kind == "u ":
            _unmerged(found, record)
            unmerged.add(record)
        elif kind == "? ":
            _untracked(found, record[2:])
    _tracked(git, found)
    return found._replace(unmerged=bool(unmerged))


def _header(found: Status, record: str) -> Status:
    key, _, value = record[2:].partition(" ")
    if key == "branch.oid" and value != "(initial)":
        return found._replace(head=value)
    if key == "branch.head" and value != "(detached)":
        return found._replace(branch=value)
    return found


def _ordinary(found: Status, record: str) -> None:
    """Read ``1 XY sub mH mI mW hH hI path``."""
    _, xy, _sub, head_mode, _index_mode, mode, head_oid, _index_oid, path = record.split(" ", 8)
    if is_denied(path):
        found.left_out.append(path)
        if xy[0] != ".":
            found.undo.append(Entry(head_mode, head_oid, path))
        return
    if xy[0] != ".":
        found.staged.append(path)
    if mode == NOTHING:
        found.gone.append(path)
    elif mode != GITLINK:
        found.present.append(path)


def _unmerged(found: Status, record: str) -> None:
    """Read ``u XY sub m1 m2 m3 mW h1 h2 h3 path``; 2 is ours."""
    fields = record.split(" ", 10)
    mode, path = fields[6], fields[10]
    if is_denied(path):
        found.undo.append(Entry(fields[4], fields[8], path))
        return
    found.staged.append(path)
    (found.gone if mode == NOTHING else found.present).append(path)


def _untracked(found: Status, path: str) -> None:
    if is_denied(path):
        return
    if path.endswith("/"):
        found.embedded.append(path.rstrip("/"))
    else:
        found.present.append(path)


def _tracked(git: Git, found: Status) -> None:
    """Find submodules, and files that git was told not to look at; those have to be read all the same."""
    for record in git.out("ls-files", "-v", "--stage", "-z").split(b"\0"):
        tag = record[:1]
        if record[2:8] == b"160000":
            fields, _, path = record.partition(b"\t")
            found.links[os.fsdecode(path)] = fields.split()[2].decode()
        elif tag.islower() and tag != b"s":
            path_text = os.fsdecode(record.partition(b"\t")[2])
            if not is_denied(path_text):
                found.assumed.append(path_text)

"""A working tree as one git tree: committed, staged, unstaged and untracked files, with those of its submodules.

The user's index, refs and files are only read: the work is done in a copy of the index, and new objects go where the
caller says.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from typing import Any, Dict, List, NamedTuple, Optional

from ...refusal import Refusal
from ...supervisor.trees import git_dir_of
from .git import Git, failed
from .status import GITLINK, NO_ID, NOTHING, Entry, Status, read_status

_PERSON = "vaws <vaws@localhost> 946684800 +0000"
MOST_NAMED = 200


class Change(NamedTuple):
    """A path that differs: A, M, D or T as git calls them, or I when only the index differs."""

    kind: str
    path: str


class Snapshot(NamedTuple):
    """A working tree. ``commit`` has its tree: HEAD itself when nothing differs, else one made up on top of it.

    ``changes`` are the differences to HEAD, also those inside of submodules (paths from the top of the outermost tree).
    ``modules`` are its populated submodules by path, ``links`` all of them with the commit the tree names.
    ``embedded`` are repositories inside that are left out, ``left_out`` denied files that differ from the commit.
    """

    top: str
    head: str
    head_tree: str
    branch: Optional[str]
    tree: str
    commit: str
    changes: List[Change]
    modules: Dict[str, Snapshot]  # type: ignore[misc]
    links: Dict[str, str]
    embedded: List[str]
    left_out: List[str]
    shallow: bool

    @property
    def own_changes(self) -> bool:
        """Whether this tree itself differs from its commit, apart from what is inside of its submodules."""
        return any(not self._inside(change.path) for change in self.changes)

    def _inside(self, path: str) -> bool:
        return any(path.startswith(module + "/") for module in self.modules)

    def whole(self, at: str = "") -> Dict[str, Snapshot]:
        """Return this tree and all populated submodules by their path from here; outer ones come first."""
        found: Dict[str, Snapshot] = {at: self}
        for path, module in self.modules.items():
            found.update(module.whole(os.path.join(at, path) if at else path))
        return found


class Objects(NamedTuple):
    """Where new objects go: into a folder per tree below ``scratch``, or with None into the tree's own store."""

    scratch: Optional[str] = None

    def of(self, git: Git) -> Git:
        """Return git that writes its objects there and reads the tree's own too."""
        if self.scratch is None:
            return git
        folder = object_folder(self.scratch, git.top)
        os.makedirs(folder, exist_ok=True)
        own = os.path.join(common_dir(git.top), "objects")
        return git.with_env(GIT_OBJECT_DIRECTORY=folder, GIT_ALTERNATE_OBJECT_DIRECTORIES=_quoted(own))


def object_folder(scratch: str, top: str) -> str:
    """Return the folder for the new objects of one tree."""
    return os.path.join(scratch, os.fsencode(top).hex()[-200:])


def _quoted(path: str) -> str:
    """Quote a path for a list that is separated by colons."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def common_dir(top: str) -> str:
    """Return the git directory that all worktrees of a repository share."""
    git_dir = git_dir_of(top)
    try:
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8", errors="surrogateescape") as stream:
            return os.path.realpath(os.path.join(git_dir, stream.read().rstrip("\n")))
    except OSError:
        return git_dir


def is_populated(path: str) -> bool:
    """Tell whether a submodule has been checked out at a path."""
    return os.path.lexists(os.path.join(path, ".git"))


def take(git: Git, objects: Objects, *, deep: bool = True) -> Snapshot:
    """Return a working tree as it stands. Not ``deep``: its submodules count by the commit they stand at.

    Raises: Refusal ``not_a_tree``, ``no_commit``, ``tree_moving``, or of git.
    """
    if not is_populated(git.top):
        raise Refusal("not_a_tree", f"{git.top} is not the top directory of a git tree", "caller")
    status = read_status(git)
    if not status.head:
        raise Refusal("no_commit", f"{git.top} has no commit yet", "caller", hint="Make a first commit.")
    head_tree, shallow = git.text("rev-parse", "HEAD^{tree}", "--is-shallow-repository").split("\n")
    modules: Dict[str, Snapshot] = {}
    links = dict(status.links)
    for path in status.links:
        inner = git.at(os.path.join(git.top, path))
        if is_populated(inner.top) and inner.run("rev-parse", "--verify", "--quiet", "HEAD").code == 0:
            modules[path] = take(inner, objects, deep=deep)
            links[path] = modules[path].commit if deep else modules[path].head
    moved = moved_links(status, links)
    writer = objects.of(git)
    tree = head_tree
    if moved or status.gone or status.present or status.staged or status.assumed or status.undo:
        tree = _write(writer, status, moved)
    changes = _changes(writer, head_tree, tree, status)
    for path, module in modules.items():
        if deep and module.changes:
            changes = [change for change in changes if change.path != path]
            changes += [Change(change.kind, f"{path}/{change.path}") for change in module.changes]
    commit = status.head if tree == head_tree else make_commit(writer, tree, [status.head], "working tree")
    return Snapshot(
        top=git.top,
        head=status.head,
        head_tree=head_tree,
        branch=status.branch,
        tree=tree,
        commit=commit,
        changes=changes,
        modules=modules,
        links=links,
        embedded=status.embedded,
        left_out=status.left_out,
        shallow=shallow == "true",
    )


def moved_links(status: Status, links: Dict[str, str]) -> List[Entry]:
    """Return the index entries of submodules that stand elsewhere than the index says."""
    return [Entry(GITLINK, oid, path) for path, oid in links.items() if oid != status.links[path]]


def _write(git: Git, status: Status, moved: List[Entry]) -> str:
    """Write the tree from a copy of the index that is brought to what is on disk."""
    with tempfile.TemporaryDirectory(prefix="vaws-index-") as folder:
        path = os.path.join(folder, "index")
        with contextlib.suppress(FileNotFoundError):
            # With its time: an entry that is as young as the index has to be compared by content.
            shutil.copy2(os.path.join(git_dir_of(git.top), "index"), path)
        work = git.with_env(GIT_INDEX_FILE=path)
        bring_up(work, status, moved)
        return work.text("write-tree")


def bring_up(git: Git, status: Status, moved: List[Entry]) -> None:
    """Bring git's index to what is on disk."""
    here = os.path.join(git.top, "")
    if status.assumed:
        git.out("update-index", "--no-assume-unchanged", "-z", "--stdin", stdin=_names(status.assumed))
    gone = status.gone + [path for path in status.assumed if not _on_disk(here, path)]
    present = status.present + [path for path in status.assumed if _on_disk(here, path)]
    entries = [Entry(NOTHING, NO_ID, path) for path in gone] + status.undo
    if entries:
        git.out("update-index", "-z", "--index-info", stdin=_lines(entries))
    if present:
        ended = git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=_names(present))
        if ended.code != 0:
            raise _unreadable(git, ended)
    if moved:
        git.out("update-index", "-z", "--index-info", stdin=_lines(moved))


def _on_disk(here: str, path: str) -> bool:
    return os.path.lexists(here + path) and not os.path.isdir(here + path)


def _unreadable(git: Git, ended: Any) -> Refusal:
    refusal = failed(git.top, "update-index", ended)
    refusal.code = "tree_unreadable"
    refusal.hint = "A file cannot be read, or it changed while the tree was looked at; look at it, then repeat this."
    return refusal


def _names(paths: List[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _lines(entries: List[Entry]) -> bytes:
    return b"".join(
        b"%s %s\t%s\0" % (entry.mode.encode(), entry.oid.encode(), os.fsencode(entry.path)) for entry in entries
    )


def _changes(git: Git, old: str, new: str, status: Status) -> List[Change]:
    found = [] if old == new else differences(git, old, new)
    named = {change.path for change in found}
    return found + [Change("I", path) for path in status.staged if path not in named]


def differences(git: Git, old: str, new: str) -> List[Change]:
    """Return how one tree differs from another."""
    fields = os.fsdecode(git.out("diff-tree", "-r", "-z", "--no-renames", "--name-status", old, new)).split("\0")
    return [Change(kind, path) for kind, path in zip(fields[0::2], fields[1::2])]


def links_of(git: Git, commit: str) -> Dict[str, str]:
    """Return the submodules that a commit names, by path."""
    found: Dict[str, str] = {}
    for record in git.out("ls-tree", "-r", "-z", commit).split(b"\0"):
        if record.startswith(b"160000 "):
            fields, _, path = record.partition(b"\t")
            found[os.fsdecode(path)] = fields.split()[2].decode()
    return found


def make_commit(git: Git, tree: str, parents: List[str], message: str) -> str:
    """Write a commit whose id depends on nothing but its arguments, and return the id."""
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {_PERSON}", f"committer {_PERSON}"]
    text = "\n".join([*lines, "", message, ""])
    return git.text("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode("utf-8", "surrogateescape"))

"""The lock of a source tree: many may launch from it, or one may write it. It lies in the tree's real git directory.

Beside the lock each holder keeps a small file, locked too, that says who it is; so the second caller can be told.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from typing import Any, Dict, Generator, List, NamedTuple, Optional

from ..engine.atomic import TEMP_PREFIX
from ..refusal import Refusal, from_os_error
from . import lease_dir

SHARED, EXCLUSIVE = "shared", "exclusive"
LOCK_NAME = "vaws-tree.lock"
_NOTES = "vaws-tree-holders"
_GITDIR = "gitdir: "

Record = Dict[str, Any]


class TreeWish(NamedTuple):
    """A tree that an execution wants to hold, ``shared`` or ``exclusive``."""

    path: str
    mode: str


class TreeHeld(NamedTuple):
    """A tree lock in our hands, for as long as the descriptors are open."""

    path: str
    git_dir: str
    mode: str
    fds: List[int]

    def release(self) -> None:
        """Close the descriptors."""
        for fd in self.fds:
            os.close(fd)


def git_dir_of(path: str) -> str:
    """Return the real git directory of the tree that a path is in; worktrees and submodules have one of their own.

    Raises: Refusal ``not_found``, ``not_a_tree``.
    """
    place = os.path.realpath(os.path.expanduser(path))
    if not os.path.exists(place):
        raise Refusal("not_found", f"{path}: the source tree does not exist", "caller")
    while True:
        found = _git_dir_in(place)
        if found is not None:
            return found
        parent = os.path.dirname(place)
        if parent == place:
            hint = "Name the top directory of a git checkout."
            raise Refusal("not_a_tree", f"{path} is in no git tree, so it cannot be locked", "caller", hint=hint)
        place = parent


def _git_dir_in(folder: str) -> Optional[str]:
    entry = os.path.join(folder, ".git")
    if os.path.isdir(entry):
        return os.path.realpath(entry)
    try:
        with open(entry, encoding="utf-8", errors="surrogateescape") as stream:
            line = stream.readline(4096).rstrip("\n")
    except OSError:
        return None
    if not line.startswith(_GITDIR):
        return None
    target = os.path.realpath(os.path.join(folder, line[len(_GITDIR) :]))
    return target if os.path.isdir(target) else None


def hold(wish: TreeWish, record: Record) -> TreeHeld:
    """Lock a tree without waiting.

    Raises: Refusal ``tree_locked`` that names the holder, ``not_a_tree``, ``not_found``.
    """
    git_dir = git_dir_of(wish.path)
    path = os.path.join(git_dir, LOCK_NAME)
    try:
        fd = lease_dir.open_lock(path)
    except OSError as error:
        raise from_os_error(error, path) from None
    try:
        got = lease_dir.try_flock(fd, shared=wish.mode == SHARED)
    except OSError as error:
        os.close(fd)
        raise from_os_error(error, path) from None
    if not got:
        os.close(fd)
        raise _locked(wish, git_dir)
    held = TreeHeld(wish.path, git_dir, wish.mode, [fd])
    _leave_note(held, record)
    return held


def _locked(wish: TreeWish, git_dir: str) -> Refusal:
    holders = _holders(git_dir)
    named = ", ".join(describe(holder) for holder in holders) or "a process that left no name"
    return Refusal(
        "tree_locked",
        f"{wish.path} is in use by {named}",
        hint="Wait for it or end it, then repeat this call.",
        details={"tree": wish.path, "mode": wish.mode, "holders": holders},
    )


def describe(holder: Record) -> str:
    """Return a holder in a few words."""
    words = [str(holder.get("execution_id") or holder.get("who") or "an unnamed process")]
    owner, pid = holder.get("owner"), holder.get("pid")
    facts = [text for text in (f"of {owner}" if owner else "", f"pid {pid}" if pid else "") if text]
    return words[0] + (f" ({', '.join(facts)})" if facts else "")


def _leave_note(held: TreeHeld, record: Record) -> None:
    """Say beside the lock who holds it; the lock holds without that, as on a full disk."""
    folder = os.path.join(held.git_dir, _NOTES)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", str(record.get("execution_id") or record.get("who") or "unnamed"))
    path = os.path.join(folder, f"{name}-{os.getpid()}-{held.fds[0]}.json")
    draft = os.path.join(folder, TEMP_PREFIX + os.path.basename(path))
    fd = -1
    try:
        os.makedirs(folder, exist_ok=True)
        _remove_dead(folder)
        fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        lease_dir.try_flock(fd)
        lease_dir.write_record(fd, {**record, "mode": held.mode, "tree": held.path})
        os.rename(draft, path)
    except OSError:
        if fd >= 0:
            os.close(fd)
            with contextlib.suppress(OSError):
                os.unlink(draft)
        return
    held.fds.append(fd)


def _remove_dead(folder: str) -> None:
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(".json") and not name.startswith(TEMP_PREFIX) and not lease_dir.is_held(path):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _holders(git_dir: str) -> List[Record]:
    folder = os.path.join(git_dir, _NOTES)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    paths = [os.path.join(folder, name) for name in names if name.endswith(".json") and not name.startswith(".")]
    records = (lease_dir.read_record(path) for path in paths if lease_dir.is_held(path))
    return [record for record in records if record is not None]


def state_of(path: str) -> Record:
    """Return {tree, git_dir, locked, mode, holders}: who holds a tree now. Raises: Refusal."""
    git_dir = git_dir_of(path)
    try:
        fd: Optional[int] = os.open(os.path.join(git_dir, LOCK_NAME), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        fd = None
    except OSError as error:
        raise from_os_error(error) from None
    mode: Optional[str] = None
    if fd is not None:
        try:
            mode = _mode_of(fd)
        finally:
            os.close(fd)
    holders = [] if mode is None else _holders(git_dir)
    return {"tree": path, "git_dir": git_dir, "locked": mode is not None, "mode": mode, "holders": holders}


def _mode_of(fd: int) -> Optional[str]:
    if not lease_dir.try_flock(fd, shared=True):
        return EXCLUSIVE
    # Other shared holders keep us from the exclusive lock; nobody is refused for longer than this instant.
    alone = lease_dir.try_flock(fd)
    fcntl.flock(fd, fcntl.LOCK_UN)
    return None if alone else SHARED


@contextlib.contextmanager
def exclusive(path: str, who: str, reservation: Optional[str] = None) -> Generator[None, None, None]:
    """Keep everybody else out of a tree while a short write (checkout, patch, parity) goes on.

    With ``reservation``, the id of a hold that has this tree exclusively, the hold's own lock is used.

    Raises: Refusal ``tree_locked`` that names the holder, ``not_a_tree``, ``not_found``, ``reservation_gone``.
    """
    if reservation is not None:
        from .borrow import tree_of  # only here: reservations need more of the supervisor than a short writer does

        with tree_of(reservation, git_dir_of(path), who):
            yield
        return
    held = hold(TreeWish(path, EXCLUSIVE), {"who": who, "pid": os.getpid()})
    try:
        yield
    finally:
        held.release()

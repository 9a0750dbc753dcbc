"""Several files changed together: all of them, or none.

Every new content is first written in full beside its target. Then originals get a second name, targets are renamed
over, and when a step fails, what was already renamed gets its original back: the very same file. A crash in between
leaves each file with its old or its new contents, and perhaps hidden ``.vaws-tmp-`` files beside them, of which a later
change in the same directory removes those that hold nothing but new contents. Contents are on disk before they are
renamed; directories are not waited for, so that a power cut may undo a finished change.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import uuid
from typing import Dict, List, NamedTuple, Optional

from ..refusal import Refusal
from ..request import Request
from .atomic import TEMP_PREFIX, set_attributes
from .confine import held
from .leftovers import sweep
from .originals import Snapshot, is_unchanged, naming
from .paths import shown

# Files are compared with their snapshots and renamed under this lock, so that calls side by side lose nothing.
_publishing = threading.Lock()
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES)


class Change(NamedTuple):
    """What happens to one path.

    ``before`` is what it held when the change was computed, None for nothing. ``body`` is the new contents, None to
    remove it. Mode, owner and attributes come from ``like``, else from ``before``, else from the umask; ``executable``
    then sets or clears the execute bits.
    """

    path: str
    before: Optional[Snapshot]
    body: Optional[bytes]
    like: Optional[Snapshot] = None
    executable: Optional[bool] = None


class Changed(Refusal):
    """A file is no longer what the change was computed from; computing it again may help."""

    def __init__(self, path: str) -> None:
        hint = "Nothing was changed. Read the file again."
        super().__init__("changed_meanwhile", f"{shown(path)} was changed by somebody else at this moment", hint=hint)


class Step:
    """A change with the names that it uses: the target itself, its new contents, and its original."""

    def __init__(self, change: Change, folder: str) -> None:
        self.change = change
        name = os.path.basename(change.path)
        self.target = os.path.join(folder, name)
        unique = os.path.join(folder, TEMP_PREFIX + uuid.uuid4().hex)
        self.staged = unique + ".new"
        self.original = unique + ".old"
        self.lost = False  # the target could not be restored; its original must stay


def carry_out(request: Request, changes: List[Change]) -> None:
    """Make all changes, or none.

    Raises: Changed; Refusal that names the file; ``rollback_failed`` when files could not be restored.
    """
    made: List[str] = []
    try:
        _carry_out(request, sorted(changes, key=lambda change: change.body is None), made)
    except BaseException:
        for folder in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        raise


def _carry_out(request: Request, changes: List[Change], made: List[str]) -> None:
    steps: List[Step] = []
    with contextlib.ExitStack() as stack:
        folders: Dict[str, str] = {}
        try:
            for change in changes:
                step = Step(change, _folder(request, change, folders, made, stack))
                steps.append(step)
                _stage(step)
                request.check()
            with _publishing:
                _publish_all(steps)
        finally:
            for step in steps:
                _remove(step.staged)
                if not step.lost:
                    _remove(step.original)
        for folder in set(folders.values()):
            sweep(folder)


def _folder(
    request: Request, change: Change, folders: Dict[str, str], made: List[str], stack: contextlib.ExitStack
) -> str:
    """Return a path of the change's directory that is safe to write through, made when it is missing."""
    folder = os.path.dirname(change.path)
    known = folders.get(folder)
    if known is None:
        with naming(change.path):
            if change.body is not None:
                _make_folders(folder, made)
            known = os.path.dirname(stack.enter_context(held(request, change.path)))
        folders[folder] = known
    return known


def _make_folders(folder: str, made: List[str]) -> None:
    missing: List[str] = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        else:
            made.append(path)


def _stage(step: Step) -> None:
    change = step.change
    if change.body is None:
        return
    with naming(change.path):
        like = change.like or change.before
        bits = 0o600 if like is not None else 0o777 if change.executable else 0o666
        fd = os.open(step.staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, bits)
        try:
            view = memoryview(change.body)
            while view:
                view = view[os.write(fd, view) :]
            if like is not None:
                _dress(fd, like, change)
            os.fsync(fd)
        finally:
            os.close(fd)


def _dress(fd: int, like: Snapshot, change: Change) -> None:
    """Give a new file the owner, mode and attributes of another one."""
    facts = os.fstat(fd)
    if (facts.st_uid, facts.st_gid) != (like.facts.st_uid, like.facts.st_gid):
        try:
            os.fchown(fd, like.facts.st_uid, like.facts.st_gid)
        except PermissionError:
            message = f"{shown(change.path)} belongs to user {like.facts.st_uid}, and only root may keep that owner"
            raise Refusal("owner_not_kept", message, hint="Edit as that user.") from None
    set_attributes(fd, like.attributes)
    mode = like.mode
    if change.executable is not None:
        mode = mode | (mode & 0o444) >> 2 if change.executable else mode & ~0o111
    os.fchmod(fd, mode)  # after chown, which clears the set-id bits


def _publish_all(steps: List[Step]) -> None:
    done: List[Step] = []
    for step in steps:
        before = step.change.before
        if before is not None and not is_unchanged(step.target, before.facts):
            raise Changed(step.change.path)
    try:
        for step in steps if len(steps) > 1 else []:  # a single step has nothing to undo
            with naming(step.change.path):
                _keep_original(step)
        for step in steps:
            with naming(step.change.path):
                publish(step)
            done.append(step)
    except BaseException as error:
        _restore(done, error)
        raise


def _keep_original(step: Step) -> None:
    """Give the original a second name; where links do not exist, write a copy."""
    before = step.change.before
    if before is None:
        return
    try:
        os.link(step.target, step.original, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        copy = Step(Change(step.change.path, before, before.body), os.path.dirname(step.original))
        copy.staged = step.original
        _stage(copy)


def publish(step: Step) -> None:
    """Put the new contents of one step in place, or remove its target."""
    if step.change.body is None:
        os.unlink(step.target)
    elif step.change.before is not None:
        os.rename(step.staged, step.target)
    else:
        try:
            os.link(step.staged, step.target)
        except FileExistsError:
            raise Changed(step.change.path) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(step.target):
                raise Changed(step.change.path) from None
            os.rename(step.staged, step.target)


def _restore(done: List[Step], cause: BaseException) -> None:
    """Undo what was published, last first.

    Raises: Refusal ``rollback_failed`` that names files which could not be restored and where their originals are.
    """
    failed: List[str] = []
    for step in reversed(done):
        try:
            if step.change.before is None:
                os.unlink(step.target)
            else:
                os.rename(step.original, step.target)
        except OSError as error:
            step.lost = True
            place = os.path.join(os.path.dirname(step.change.path), os.path.basename(step.original))
            kept = f", its original is {shown(place)}" if step.change.before is not None else ""
            failed.append(f"{shown(step.change.path)} ({error.strerror}{kept})")
    if failed:
        message = f"{cause}; and then these files could not be restored: {', '.join(failed)}"
        raise Refusal("rollback_failed", message, retry_safe=False, hint="Put these files right by hand.") from cause


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)

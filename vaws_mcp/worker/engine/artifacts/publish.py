"""Put completed files in their places: a file and a new tree in one step, an existing tree file by file."""

from __future__ import annotations

import errno
import os
import stat
from typing import Any, Dict, List, Set

from ...refusal import Refusal, from_os_error
from .entries import FOLDER, LINK, Entry, shown, text_of
from .inside import Inside
from .plan import Plan
from .receive import Receiver
from .staging import Staging, flush


class Publisher:
    """Publishes what a receiver completed. Readers see an old or a new file, never a part of one."""

    def __init__(self, plan: Plan, staging: Staging, receiver: Receiver) -> None:
        self._plan = plan
        self._staging = staging
        self._receiver = receiver
        self._root = staging.tree if plan.fresh else plan.target
        self._inside = Inside(self._root)

    def publish(self) -> None:
        """Do it. Raises: Refusal that names the path."""
        try:
            if self._plan.has_work:
                self._prepare()
                self._publish()
            else:
                self._finish_folders()
        except OSError as error:
            raise self._explained(error) from None
        finally:
            self._inside.close()

    def _prepare(self) -> None:
        """Do all that can fail without touching the target."""
        for index, path in self._receiver.done.items():
            old = self._plan.owners.get(index)
            if old is not None:
                _keep_owner(path, old, self._plan.entries[index])
        flush(list(self._receiver.done.values()), self._staging.path)

    def _publish(self) -> None:
        plan = self._plan
        for entry in plan.folders:
            os.mkdir(self._inside.path(entry.rel), 0o700)
        for index, path in self._receiver.done.items():
            os.rename(path, self._inside.path(plan.entries[index].rel))
        for entry in plan.links:
            self._link(entry)
        self._delete()
        for index in self._receiver.same:
            self._dress(plan.entries[index])
        for entry in plan.modes:
            if entry.kind != FOLDER:
                self._dress(entry)
        self._finish_folders()
        if plan.fresh:
            self._reveal()
        flush([] if plan.fresh else self._changed_folders(), self._staging.path)
        flush([os.path.dirname(plan.target) or b"/"], self._staging.path)

    def _dress(self, entry: Entry) -> None:
        """Give what is there its mode and time; a link that has taken its place is left alone."""
        path = self._inside.path(entry.rel)
        os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)
        if not os.path.islink(path):
            os.chmod(path, entry.mode)

    def _link(self, entry: Entry) -> None:
        temporary = os.path.join(self._staging.path, b"link")
        if os.path.lexists(temporary):
            os.unlink(temporary)
        os.symlink(entry.link, temporary)
        os.utime(temporary, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)
        os.rename(temporary, self._inside.path(entry.rel))

    def _delete(self) -> None:
        for rel in self._plan.extra:
            path = self._inside.path(rel)
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)

    def _finish_folders(self) -> None:
        """Give directories their modes and times, the inner ones first; an existing root keeps its mode."""
        for entry in reversed(self._plan.entries):
            if entry.kind != FOLDER or not (entry.rel or self._plan.fresh):
                continue
            path = self._inside.path(entry.rel)
            facts = os.lstat(path)
            if not stat.S_ISDIR(facts.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), entry.under(self._root))
            if facts.st_mtime_ns != entry.mtime_ns:
                os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns))
            if stat.S_IMODE(facts.st_mode) != entry.mode and (entry.rel or entry.mode & stat.S_IWUSR):
                os.chmod(path, entry.mode)

    def finish_root(self) -> None:
        """Give an existing root its time, which staging inside of it has changed."""
        root = self._plan.entries[0]
        if root.kind == FOLDER and not self._plan.fresh and os.stat(self._plan.target).st_mtime_ns != root.mtime_ns:
            os.utime(self._plan.target, ns=(root.mtime_ns, root.mtime_ns))

    def _reveal(self) -> None:
        """Rename the whole new tree into place."""
        if os.path.lexists(self._plan.target):  # rename would replace an empty directory
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._plan.target)
        os.rename(self._root, self._plan.target)
        root = self._plan.entries[0]
        if not root.mode & stat.S_IWUSR:  # such a directory cannot be moved
            os.chmod(self._plan.target, root.mode)

    def _changed_folders(self) -> List[bytes]:
        rels: Set[bytes] = {self._plan.entries[index].rel for index in self._receiver.done}
        rels.update(entry.rel for entry in self._plan.folders + self._plan.links)
        return sorted({os.path.dirname(self._plan.target + b"/" + rel) for rel in rels if rel})

    def _explained(self, error: OSError) -> Refusal:
        name = error.filename2 or error.filename or self._plan.target
        name = shown(self._inside.named(name)) if isinstance(name, bytes) else str(name)
        if error.errno == errno.EXDEV:
            message = f"{name} lies on another file system than its tree, so it cannot be replaced in one step"
            return Refusal("other_file_system", message, hint="Move that directory by itself.")
        return from_os_error(error, name)

    def facts(self, end: Dict[str, Any]) -> Dict[str, Any]:
        """Return what was done, for the result."""
        plan, kinds = self._plan, [entry.kind for entry in self._plan.entries]
        counts: Dict[str, Any] = dict(end["end"])
        return {
            "kind": "file" if plan.is_file else "tree",
            "files": len(kinds) - kinds.count(FOLDER) - kinds.count(LINK),
            "folders": kinds.count(FOLDER),
            "links": kinds.count(LINK),
            "total_bytes": sum(entry.size for entry in plan.entries),
            "sent_files": int(counts["files"]),
            "sent_bytes": int(counts["bytes"]),
            "spared_bytes": int(counts["spared_bytes"]),
            "unchanged": plan.unchanged,
            "deleted": [text_of(rel) for rel in plan.extra],
            "changed": [text_of(plan.entries[index].rel or plan.target) for index in end.get("changed") or []],
            "created": plan.fresh,
            "sha256": self._receiver.hashes.get(0) if plan.is_file else None,
        }


def _keep_owner(path: bytes, old: os.stat_result, entry: Entry) -> None:
    facts = os.stat(path)
    if (facts.st_uid, facts.st_gid) == (old.st_uid, old.st_gid):
        return
    try:
        os.chown(path, old.st_uid, old.st_gid)
        os.chmod(path, entry.mode)
    except PermissionError:
        message = f"{shown(entry.rel)} belongs to user {old.st_uid}, and only root may keep that owner"
        raise Refusal("owner_not_kept", message, hint="Write as that user or to another path.") from None

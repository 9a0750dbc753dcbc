"""The supervisor's own record: written at each change, and written anew when somebody deleted it."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..engine.atomic import replace_file
from ..facts import procfs
from . import status as records
from .lease_dir import is_at
from .spec import Spec, dump


class Journal:
    """The record of one execution in the hands of its supervisor."""

    def __init__(self, folder: str, spec: Spec, lock_fd: int) -> None:
        self.folder = folder
        self._spec = spec
        self._locks = [lock_fd]
        submitted = round(os.stat(os.path.join(folder, "spec.json")).st_mtime, 3)
        self.status = records.new_status(spec.execution_id, submitted)
        own = procfs.identity_of(os.getpid())
        self.status["supervisor"] = None if own is None else own._asdict()
        self.status["reservation"] = spec.needs.reservation
        records.write_status(folder, self.status)  # without a record nothing is started

    def write(self, **changes: Any) -> None:
        """Record a change. A full disk is no reason to leave the command alone: the next write says it too."""
        self.status.update(changes)
        try:
            self._restore_if_deleted()
            records.write_status(self.folder, self.status)
        except OSError as error:
            _complain(f"cannot write status.json: {error}")

    def note(self, **changes: Any) -> None:
        """Record a change only when it is one."""
        if any(self.status[name] != value for name, value in changes.items()):
            self.write(**changes)

    def watch(self) -> None:
        """Look whether the record is still there, and write it anew if not, so that the execution can be found."""
        if not os.path.exists(os.path.join(self.folder, "status.json")):
            self.write()

    def _restore_if_deleted(self) -> None:
        if os.path.exists(os.path.join(self.folder, "spec.json")):
            return
        os.makedirs(self.folder, 0o700, exist_ok=True)
        if not any(is_at(fd, os.path.join(self.folder, "supervisor.lock")) for fd in self._locks):
            lock = records.try_lock(self.folder)
            if lock is None:
                raise FileExistsError(f"{self.folder} was deleted and belongs to another supervisor now")
            self._locks.append(lock)
        replace_file(os.path.join(self.folder, "spec.json"), dump(self._spec.raw))
        self.status["note"] = "the records of this execution were deleted while it was under way, and written anew"


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()

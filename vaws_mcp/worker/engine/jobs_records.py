"""The records of jobs: one directory each with ``job.json``, ``stdout.log`` and ``stderr.log``.

``job.json`` is written by the worker that keeps the job: when it becomes one, at its end, and by whoever ends the
family of a job whose keeper is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import time
from typing import Any, Dict, List, Optional, cast

from ..facts import procfs
from ..facts.procfs import Identity
from ..refusal import Refusal, bad_request
from . import environment
from .drain import Family

Record = Dict[str, Any]
RECORD = "job.json"
STOP_ORDER = "stop.json"
KEEP_FINISHED_S = 7 * 86400.0
KEEP_FINISHED = 200
_YOUNG_S = 60.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def now() -> str:
    """Return the time as UTC in ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def folder_of_all() -> str:
    """Return the directory that holds one directory for each job."""
    return os.path.join(environment.home(), ".vaws", "jobs")


def existing_folder(job_id: str) -> str:
    """Return the directory of a job.

    Raises: Refusal when there is no such job.
    """
    if _ID.fullmatch(job_id) is None:
        raise bad_request(f"{job_id!r} is no job id", "job_list names the jobs.")
    folder = os.path.join(folder_of_all(), job_id)
    if not os.path.exists(os.path.join(folder, RECORD)):
        hint = "job_list names the jobs of this endpoint; finished ones are removed after seven days."
        raise Refusal("job_unknown", f"there is no job {job_id} on this endpoint", "caller", hint=hint)
    return folder


def write(folder: str, record: Record) -> None:
    """Replace the record in one step. It is not synced: after a crash of the machine the job is gone anyway.

    Raises: OSError.
    """
    temporary = os.path.join(folder, f".{RECORD}-{os.urandom(4).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as stream:
            stream.write(json.dumps(record).encode("ascii"))
        os.rename(temporary, os.path.join(folder, RECORD))
    except OSError:
        os.unlink(temporary)
        raise


def read(folder: str) -> Record:
    """Return the record as it was written.

    Raises: Refusal when it is unreadable.
    """
    raw = procfs.read_small(os.path.join(folder, RECORD))
    try:
        found: Any = json.loads((raw or b"").decode("utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(cast("Record", found).get("streams"), dict):
        message = f"{folder}/{RECORD} cannot be read"
        raise Refusal("job_unreadable", message, hint="The logs beside it are plain files.")
    return cast("Record", found)


def identity(record: Record, who: str) -> Optional[Identity]:
    """Return the identity of the ``root`` or the ``keeper`` as the record names it, if this boot still is that one."""
    known = record.get(who)
    if not isinstance(known, dict) or record.get("boot_id") != procfs.boot_id():
        return None
    fields = cast("Dict[str, int]", known)
    return Identity(fields["pid"], fields["start_ticks"])


def kept(record: Record) -> bool:
    """Tell whether the process that keeps the job lives."""
    keeper = identity(record, "keeper")
    return keeper is not None and procfs.is_alive(keeper)


def family_of(record: Record) -> Optional[Family]:
    """Return the family of a job, or None when the machine was restarted since."""
    if record.get("boot_id") != procfs.boot_id():
        return None
    root = identity(record, "root")
    marker = str(record["marker"]).encode("ascii")
    # Once nobody reads a pipe any more, its number may be given to another one.
    outputs = frozenset(cast("List[str]", record.get("outputs") or [])) if kept(record) else frozenset()
    if root is None:
        return Family(marker=marker, outputs=outputs)
    return Family(root, root.pid if _session_is_its_own(root, marker) else None, marker, outputs)


def _session_is_its_own(root: Identity, marker: bytes) -> bool:
    """Tell whether the session number is not used again: by its leader, else by a member with the job's marker."""
    leader = procfs.read_process(root.pid)
    if leader is not None:
        return leader.identity == root
    return any(
        process.sid == root.pid and procfs.has_variable(process.pid, marker) for process in procfs.scan().values()
    )


def observe(folder: str) -> Record:
    """Return the record with its present state.

    A job that was running when its keeper died is ``lost_keeper`` while processes of it live, and then ``lost``: its
    exit code is not known.
    """
    record = read(folder)
    if record["state"] == "running" and not kept(record):
        record = read(folder)  # it may have ended between the two looks
        if record["state"] == "running":
            family = family_of(record)
            record["state"] = "lost_keeper" if family is not None and family.members() else "lost"
            for stream in record["streams"].values():
                stream["open"] = False
    elif not kept(record):
        for stream in record["streams"].values():
            stream["open"] = False
    order = procfs.read_small(os.path.join(folder, STOP_ORDER))
    record["stop_requested_at"] = None if order is None else order.decode("ascii", "replace")
    return record


def names() -> List[str]:
    """Return the ids of all jobs, the newest first."""
    found: List[Any] = []
    try:
        with os.scandir(folder_of_all()) as entries:
            for entry in entries:
                if _ID.fullmatch(entry.name) and os.path.exists(os.path.join(entry.path, RECORD)):
                    found.append((_began(entry.path), entry.name))
    except FileNotFoundError:
        pass
    return [name for _, name in sorted(found, reverse=True)]


def _began(folder: str) -> float:
    """Return when the job began, which is when its log was made; its record is newer after its end."""
    try:
        return float(read(folder)["began"])
    except (Refusal, KeyError, TypeError, ValueError):
        return 0.0


def clean() -> List[str]:
    """Remove what is finished and older than seven days, and the oldest finished jobs over 200; returns their ids."""
    removed = _clean_without_record()
    finished = 0
    for name in names():
        folder = os.path.join(folder_of_all(), name)
        try:
            changed = os.stat(os.path.join(folder, RECORD)).st_mtime
            record = read(folder)
        except (OSError, Refusal):
            continue
        if record["state"] == "running" and kept(record):
            continue
        finished += 1
        age = time.time() - changed
        if (age > KEEP_FINISHED_S or (finished > KEEP_FINISHED and age > _YOUNG_S)) and not _lives(record):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(name)
    return removed


def _clean_without_record() -> List[str]:
    """Remove logs without a record that nobody has written to for seven days."""
    removed: List[str] = []
    with os.scandir(folder_of_all()) as entries:
        found = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    for entry in found:
        if os.path.exists(os.path.join(entry.path, RECORD)):
            continue
        with contextlib.suppress(OSError):
            files = [os.path.join(entry.path, name) for name in os.listdir(entry.path)]
            newest = max(os.stat(path).st_mtime for path in [entry.path, *files])
            if time.time() - newest > KEEP_FINISHED_S:
                shutil.rmtree(entry.path, ignore_errors=True)
                removed.append(entry.name)
    return removed


def _lives(record: Record) -> bool:
    """Tell whether any process of the job lives, or its keeper still reads its output."""
    if kept(record) and any(stream["open"] for stream in record["streams"].values()):
        return True
    family = family_of(record)
    return family is not None and bool(family.members())

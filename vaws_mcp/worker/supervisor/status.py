"""The record of an execution, ``status.json``: written by its supervisor, read and judged by workers."""

from __future__ import annotations

import fcntl
import json
import os
import time
from typing import Any, Dict, List, Optional, cast

from ..engine.atomic import replace_file
from ..engine.drain import Family, describe
from ..facts import procfs
from ..facts.procfs import Identity
from ..refusal import Refusal
from .spec import MARKER, SCHEMA

Status = Dict[str, Any]
FINAL_STATES = ("exited", "lost")
START_BOUND_S = 10.0


def now() -> float:
    """Return the time for records. Units: seconds since 1970, UTC, to the millisecond."""
    return round(time.time(), 3)


def new_status(execution_id: str, submitted_at: float) -> Status:
    """Return the record of an execution whose supervisor has just begun; all fields are present."""
    return {
        "schema": SCHEMA,
        "execution_id": execution_id,
        "state": "queued",
        "boot_id": procfs.boot_id(),
        "supervisor": None,
        "root": None,
        "submitted_at": submitted_at,
        "started_at": None,
        "ended_at": None,
        "exit": None,
        "resources_released": False,
        "survivors": [],
        "stop_requested_at": None,
        "stop_reason": None,
        "note": None,
        "queue": None,
        "blocked": None,
        "devices": None,
        "ports": [],
        "reservation": None,
        "lease_scope": None,
        "lease_scope_why": None,
        "probe": None,
        "assumed_free": False,
        "health_skipped": False,
    }


def write_status(folder: str, status: Status) -> None:
    """Replace the record in one step."""
    replace_file(os.path.join(folder, "status.json"), json.dumps(status).encode("ascii"))


def read_status(folder: str) -> Optional[Status]:
    """Return the record as written, or None when there is none yet. Raises: Refusal ``torn_record``."""
    path = os.path.join(folder, "status.json")
    try:
        with open(path, "rb") as stream:
            raw = stream.read()
    except FileNotFoundError:
        return None
    try:
        status: Any = json.loads(raw.decode("utf-8"))
    except ValueError:
        status = None
    if not isinstance(status, dict) or "state" not in status or "execution_id" not in status:
        raise Refusal("torn_record", f"{path} is not a status record; it was left alone")
    return cast("Status", status)


def as_identity(value: Any) -> Optional[Identity]:
    """Return the identity in a record's ``supervisor`` or ``root``, or None."""
    try:
        return Identity(int(value["pid"]), int(value["start_ticks"]))
    except (TypeError, KeyError, ValueError):
        return None


def try_lock(folder: str) -> Optional[int]:
    """Take the lock that a supervisor holds for its life; None when it is held. Closing the descriptor frees it."""
    path = os.path.join(folder, "supervisor.lock")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def supervisor_lives(folder: str, status: Status) -> bool:
    """Tell whether the supervisor is there: by its identity, or by its lock when it is in another container."""
    supervisor = as_identity(status.get("supervisor"))
    if supervisor is not None and procfs.is_alive(supervisor):
        return True
    fd = try_lock(folder)
    if fd is None:
        return True
    os.close(fd)
    return False


def family_of(status: Status) -> Family:
    """Return how to find the processes of an execution from outside its supervisor."""
    marker = "{}={}".format(MARKER, status["execution_id"])
    root = as_identity(status.get("root")) if status["boot_id"] == procfs.boot_id() else None
    sid = None
    if root is not None:
        leader = procfs.read_process(root.pid)
        # A foreign process may have got the pid, and with it the session id, after the root was gone.
        if leader is None or leader.identity == root:
            sid = root.pid
    return Family(root, sid, marker.encode("utf-8"))


def observe(folder: str, execution_id: str) -> Status:
    """Return the record, corrected by what can be seen now. Adds ``supervised``; writes nothing.

    ``lost``: not final, and neither a supervisor nor a process of the family is there.
    """
    status = read_status(folder)
    if status is None:
        status = new_status(execution_id, round(os.stat(folder).st_mtime, 3))
        status.update(boot_id=None, supervised=False)
        if 0 <= now() - status["submitted_at"] < START_BOUND_S:
            return status  # its supervisor is on the way
    status["supervised"] = False
    if status["state"] in FINAL_STATES:
        return status
    boot_id = procfs.boot_id()
    if status["boot_id"] is not None and boot_id is not None and status["boot_id"] != boot_id:
        note = "the endpoint was restarted, which ended everything that ran"
        status.update(state="lost", resources_released=True, survivors=[], note=note)
        return status
    if supervisor_lives(folder, status):
        status["supervised"] = True
        return status
    final = read_status(folder)
    if final is not None and final["state"] in FINAL_STATES:
        final["supervised"] = False
        return final
    if not family_of(status).members():
        nothing_begun = status["state"] == "queued"  # its leases ended with it, and no command was started
        status.update(state="lost", note="the supervisor is gone and no process of the execution is left")
        status["resources_released"] = nothing_begun
    else:
        status["note"] = "the supervisor is gone and processes of the execution live on; stop ends them"
    return status


def alive_family(status: Status) -> List[Dict[str, Any]]:
    """Return the living processes of an execution, the supervisor not among them."""
    supervisor = as_identity(status.get("supervisor"))
    family = family_of(status)
    if status.get("supervised") and supervisor is not None:
        family.known.add(supervisor)
    return [describe(process) for process in family.members() if process.identity != supervisor]


def log_sizes(folder: str) -> Dict[str, Optional[int]]:
    """Return the sizes of the logs in bytes; None for one that does not exist."""
    sizes: Dict[str, Optional[int]] = {}
    for name in ("stdout", "stderr", "supervisor"):
        try:
            sizes[name] = os.stat(os.path.join(folder, name + ".log")).st_size
        except OSError:
            sizes[name] = None
    return sizes

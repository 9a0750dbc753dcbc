"""How an execution is ended: by its supervisor step by step, or by a worker when the supervisor is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any, Callable, Dict, List, Optional, Set, cast

from ..engine.atomic import replace_file
from ..engine.drain import Drained, Family, Pace, describe, drain
from ..engine.linux import send_signal
from ..facts import procfs, sockets
from ..facts.procfs import Identity
from . import status as records
from .spec import StopTimes, load, parse, stop_times

PORT_BOUND_S = 2.0
_SHELLS = frozenset(("bash", "sh", "dash", "zsh", "ash", "ksh", "busybox"))


def request_stop(folder: str, reason: str, times: StopTimes) -> None:
    """Write down that and why the execution is to stop, for its supervisor to find; on a full disk it stops too."""
    order = {"reason": reason, "requested_at": records.now()}
    order.update(times._asdict())
    with contextlib.suppress(OSError):
        replace_file(os.path.join(folder, "stop.json"), json.dumps(order).encode("ascii"))


def read_stop(folder: str, default: StopTimes) -> Dict[str, Any]:
    """Return the stop order as {reason, requested_at, times}; a plain SIGTERM without order has a reason of its own."""
    order: Dict[str, Any] = {}
    raw = procfs.read_small(os.path.join(folder, "stop.json"))
    if raw is not None:
        try:
            order = cast("Dict[str, Any]", json.loads(raw.decode("utf-8")))
        except ValueError:
            order = {}
    return {
        "reason": order.get("reason") or "the supervisor was told to end",
        "requested_at": order.get("requested_at") or records.now(),
        "times": stop_times(order, default),
    }


def signal_root(root: Identity, signum: int) -> None:
    """Send a signal to the root of a family; SIGINT also to the children of a shell, which would wait for them."""
    process = procfs.read_process(root.pid)
    send_signal(root, signum)
    if signum != signal.SIGINT or process is None or process.comm not in _SHELLS:
        return
    for child in procfs.scan().values():
        if child.ppid == root.pid and child.sid == process.sid:
            send_signal(child.identity, signum)


def open_ports(ports: List[int], strangers_only: Callable[[Set[int]], bool]) -> List[int]:
    """Return those of the execution's ports that may still be its own, waiting at most 2 s for them to close.

    ``strangers_only`` tells of a set of owner pids whether none belongs to the execution.
    """
    limit = time.monotonic() + PORT_BOUND_S
    pause = 0.005
    while True:
        listening = sockets.listeners() if ports else {}
        left = [port for port in ports if port in listening and not _foreign(listening[port], strangers_only)]
        if not left or time.monotonic() >= limit:
            return left
        time.sleep(pause)
        pause = min(pause * 2, 0.2)


def _foreign(inodes: Set[int], strangers_only: Callable[[Set[int]], bool]) -> bool:
    owners = sockets.owners(inodes, procfs.pids())
    pids = {pid for holders in owners.values() for pid in holders}
    return bool(pids) and len(owners) == len(inodes) and strangers_only(pids)


def finish(status: records.Status, drained: Drained, ports: List[int], family: Family) -> None:
    """Note in the record what the drain left, and whether everything the execution held is free again."""
    members = {process.pid for process in family.members()}
    left = open_ports(ports, lambda pids: not pids & members)
    status["survivors"] = [describe(process) for process in drained.survivors]
    status["resources_released"] = not drained.survivors and not left
    if left:
        status["note"] = "ports still open: {}".format(", ".join(str(port) for port in left))


def drain_orphans(folder: str, status: records.Status, reason: str, times: StopTimes) -> Optional[records.Status]:
    """End the family of an execution whose supervisor is gone and finish its record.

    Returns None when another process holds the supervisor's lock: then that one does it.
    """
    lock = records.try_lock(folder)
    if lock is None:
        return None
    try:
        current = records.read_status(folder) or status
        if current["state"] == "exited":
            return current
        family = records.family_of(current)
        drained = drain(family, Pace(times.term_s, times.kill_s))
        current.update(state="exited", ended_at=records.now(), stop_reason=reason)
        current["stop_requested_at"] = current.get("stop_requested_at") or records.now()
        current["exit"] = {"reason": "cancelled", "code": None, "signal": None}
        current["note"] = "ended without its supervisor; its exit code is not known"
        finish(current, drained, _ports(folder), family)
        try:
            records.write_status(folder, current)
        except OSError as error:
            current["note"] = f"ended, but its record cannot be written: {error.strerror}"
        return current
    finally:
        os.close(lock)


def _ports(folder: str) -> List[int]:
    return parse(load(folder)).ports

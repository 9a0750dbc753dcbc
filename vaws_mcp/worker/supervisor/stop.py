"""How an execution is ended: by its supervisor step by step, or by a worker when the supervisor is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, cast

from ..engine import environment
from ..engine.atomic import replace_file
from ..engine.drain import Drained, Family, Pace, describe, drain
from ..engine.linux import send_signal
from ..facts import procfs, sockets
from ..facts.procfs import Identity
from ..refusal import Refusal
from . import status as records
from .choose import DeviceWish
from .probing import Probing
from .release import devices_free
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


def finish(
    status: records.Status, drained: Drained, family: Family, devices: Callable[[], Tuple[bool, Optional[str]]]
) -> None:
    """Note in the record what the drain left, and whether everything the execution held is free again.

    ``devices`` says whether its devices are, and why not; it is asked only when nothing else is left.
    """
    members = {process.pid for process in family.members()}
    left = open_ports(status.get("ports") or [], lambda pids: not pids & members)
    status["survivors"] = [describe(process) for process in drained.survivors]
    status["resources_released"] = not drained.survivors and not left
    if left:
        status["note"] = "ports still open: {}".format(", ".join(str(port) for port in left))
    elif status["resources_released"]:
        status["resources_released"], why = devices()
        status["note"] = why or status["note"]


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
        finish(current, drained, family, lambda: _devices_free(folder, current))
        try:
            records.write_status(folder, current)
        except OSError as error:
            current["note"] = f"ended, but its record cannot be written: {error.strerror}"
        return current
    finally:
        os.close(lock)


def _devices_free(folder: str, status: records.Status) -> Tuple[bool, Optional[str]]:
    """Probe the devices of an execution whose supervisor is gone."""
    devices = [device["logic"] for device in status.get("devices") or []]
    if not devices:
        return True, None
    spec = parse(load(folder))
    try:
        env, _source = environment.prepare(spec.env_spec, lambda: None)
    except Refusal as refusal:
        return False, f"whether the devices are free again is not known: {refusal.message}"
    wish = (spec.needs.devices or DeviceWish())._replace(assume_free=bool(status["assumed_free"]))
    return devices_free(devices, wish, Probing(env, lambda: None).now, time.sleep)

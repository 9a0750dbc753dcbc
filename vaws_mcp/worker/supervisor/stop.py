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
from . import choose, lease_dir, scope
from . import status as records
from .choose import DeviceWish
from .leases import Place, holder_of, is_taken, safe_key
from .probing import Probing
from .release import devices_free
from .spec import StopTimes, existing_folder, load, parse, stop_times

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

    One that has exited before, but still held something, is looked at again. Returns None when another process holds
    the supervisor's lock: then that one does it.
    """
    lock = records.try_lock(folder)
    if lock is None:
        return None
    try:
        current = records.read_status(folder) or status
        again = current["state"] == "exited"
        if again and current["resources_released"]:
            return current
        users = _living_users(current)
        family = records.family_of(current)
        drained = drain(family, Pace(times.term_s, times.kill_s))
        if not again:
            current.update(state="exited", ended_at=records.now(), stop_reason=reason)
            current["stop_requested_at"] = current.get("stop_requested_at") or records.now()
            current["exit"] = {"reason": "cancelled", "code": None, "signal": None}
        current["note"] = (
            "all it held is free now" if again else "ended without its supervisor; its exit code is not known"
        )
        finish(current, drained, family, lambda: _devices_free(folder, current))
        if users:
            names = ", ".join(str(user["execution_id"]) for user in users)
            current.update(survivors=users, resources_released=False, note=f"still used by {names}")
        try:
            records.write_status(folder, current)
        except OSError as error:
            current["note"] = f"ended, but its record cannot be written: {error.strerror}"
        return current
    finally:
        os.close(lock)


def _living_users(status: records.Status) -> List[Dict[str, Any]]:
    """Return those launches in a hold, of those that were in it when it ended, that have not ended."""
    users = [entry for entry in status["survivors"] if "execution_id" in entry]
    return [user for user in users if _lives(str(user["execution_id"]))]


def _lives(execution_id: str) -> bool:
    try:
        return records.observe(existing_folder(execution_id), execution_id)["state"] not in records.FINAL_STATES
    except Refusal:
        return False


def _devices_free(folder: str, status: records.Status) -> Tuple[bool, Optional[str]]:
    """Probe the devices of an execution whose supervisor is gone, but for those that somebody else has by now."""
    spec = parse(load(folder))
    shared = lease_dir.chosen(spec.needs.lease_dir)
    place = Place(procfs.boot_id() or "", shared if os.path.isdir(shared) else None)
    granted: List[Dict[str, Any]] = status.get("devices") or []
    devices = [device["logic"] for device in granted if not _is_others(place, device, spec.needs.reservation)]
    if not devices:
        return True, None
    try:
        env, _source = environment.prepare(spec.env_spec, lambda: None)
    except Refusal as refusal:
        return False, f"whether the devices are free again is not known: {refusal.message}"
    wish = (spec.needs.devices or DeviceWish())._replace(assume_free=bool(status["assumed_free"]))
    return devices_free(devices, wish, Probing(env, lambda: None).now, time.sleep)


def _is_others(place: Place, device: Dict[str, Any], reservation: Optional[str]) -> bool:
    """Tell whether another execution has a device now: our own lease ended with our supervisor."""
    alias = choose.alias_of(device["logic"], scope.mount_namespace())
    keys = [safe_key(device["bus_id"] or "npu{}c{}".format(device["npu"], device["chip"])), alias]
    held = [key for key in keys if is_taken(place, key)]
    holders = [holder_of(place, key) or {} for key in held]
    return any(reservation is None or holder.get("execution_id") != reservation for holder in holders)

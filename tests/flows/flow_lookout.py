"""What must always hold in the simulated container, judged from outside: by /proc, the NPUs, locks and records."""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from flow_world import Json, World

from vaws_mcp.sim.devices import list_devices
from vaws_mcp.sim.processes import Identity, identify

MARK = b"VAWS_EXECUTION_ID="
VISIBLE = b"ASCEND_RT_VISIBLE_DEVICES="
FINAL = ("exited", "lost", "never_started")


@dataclass(frozen=True)
class Member:
    """A living process of an execution, with the devices that it was given."""

    execution_id: str
    identity: Identity
    devices: frozenset[int]
    line: str


def members(marker: str) -> list[Member]:
    """Return all living processes in a container that belong to an execution."""
    found: list[Member] = []
    needle = f"VAWS_SIM_MARKER={marker}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            variables = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            owner = _value(variables, MARK)
            identity = identify(int(entry.name))
            if needle in variables and owner is not None and identity is not None:
                words = filter(None, (_value(variables, VISIBLE) or "").split(","))
                found.append(Member(owner, identity, frozenset(map(int, words)), line[:100]))
    return found


def _value(variables: list[bytes], name: bytes) -> str | None:
    return next((entry[len(name) :].decode() for entry in variables if entry.startswith(name)), None)


class Lookout:
    """Looks at one container. Whatever it finds wrong is a sentence."""

    def __init__(self, world: World) -> None:
        self._root = Path(world.facts["root"])
        self._count = int(world.facts["devices"])
        self._layout = str(world.facts["layout"])
        self._marker = str(world.facts["marker"])
        self._boot_id = str(world.facts["boot_id"])

    def record(self, execution_id: str) -> Json:
        """Return the supervisor's record as it is now; {} when there is none."""
        path = self._root / "root" / ".vaws" / "executions" / execution_id / "status.json"
        try:
            return json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return {}

    def folders(self) -> set[str]:
        """Return the executions that the container knows."""
        folder = self._root / "root" / ".vaws" / "executions"
        return {entry.name for entry in folder.iterdir() if entry.name[0] != "."} if folder.is_dir() else set()

    def members(self) -> list[Member]:
        return members(self._marker)

    def wrong(self, answers: dict[str, Json], known: Callable[[], list[str]]) -> list[str]:
        """Judge: ``answers`` are rows about executions that were given before this call, ``known`` names all there are.

        What is there is looked at before it is asked for, because new executions may come at any time.
        """
        present = self.members()
        own = known()
        return [
            *self._shared_by_visible(present),
            *self._shared_by_memory(),
            *self._granted_twice(own),
            *self._without_lease(own),
            *_living_after_the_end(present, answers),
            *[f"nobody knows {one}" for one in present if one.execution_id not in own],
        ]

    def _shared_by_visible(self, present: list[Member]) -> list[str]:
        """Two executions whose living processes were given the same device. One alive before and after counts."""
        return [
            f"device {one.devices & other.devices}: {one} and {other}"
            for one in present
            for other in present
            if one.execution_id < other.execution_id
            and one.devices & other.devices
            and _alive(one.identity)
            and _alive(other.identity)
        ]

    def _shared_by_memory(self) -> list[str]:
        found: list[str] = []
        for device in list_devices(str(self._root), self._count, self._layout):
            who = {(holder.pid, self._owner(holder.pid)) for holder in device.holders}
            still = {(pid, owner) for pid, owner in who if identify(pid) is not None}
            if len({owner for _pid, owner in still}) > 1:
                found.append(f"npu-smi shows device {device.logic} in use by {sorted(map(str, still))}")
        return found

    def _owner(self, pid: int) -> str:
        try:
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return "foreign"
        return _value(variables, MARK) or "foreign"

    def _running(self, own: Iterable[str]) -> dict[str, Json]:
        """Return the records that say `running` of which the supervisor lives."""
        records = {one: self.record(one) for one in own}
        return {one: record for one, record in records.items() if _in_force(record)}

    def _granted_twice(self, own: Iterable[str]) -> list[str]:
        found: list[str] = []
        first = self._running(own)
        running = {one: record for one, record in first.items() if _in_force(self.record(one))}
        for one, record in running.items():
            for other, another in running.items():
                apart = one < other and other != record["reservation"] and one != another["reservation"]
                both = _logics(record) & _logics(another)
                if apart and both:
                    found.append(f"{one} and {other} run with device {both} at the same time")
        return found

    def _without_lease(self, own: Iterable[str]) -> list[str]:
        """Executions that run with devices of which a lock or a socket is free."""
        found: list[str] = []
        for one, record in self._running(own).items():
            missing = [device["bus_id"] for device in record["devices"] or [] if not self._leased(device["bus_id"])]
            if missing and _in_force(self.record(one)):
                found.append(f"{one} runs without the lease of {missing}")
        return found

    def _leased(self, bus_id: str) -> bool:
        sockets = Path("/proc/net/unix").read_text("utf-8", "replace")
        return f"@vaws-{self._boot_id}-{bus_id}" in sockets and is_locked(self._root / "leases" / f"{bus_id}.lock")

    def left(self) -> list[str]:
        """Say what there is after everything has ended."""
        folder = self._root / "leases"
        locked = [path.name for path in folder.glob("*.lock") if is_locked(path)] if folder.is_dir() else []
        tickets = [path.name for path in folder.glob("*.ticket") if is_locked(path)] if folder.is_dir() else []
        return [*map(str, self.members()), *locked, *tickets]


def is_locked(path: Path) -> bool:
    """Tell whether somebody holds the exclusive lock of a file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


def _in_force(record: Json) -> bool:
    supervisor = record.get("supervisor")
    if record.get("state") != "running" or not supervisor:
        return False
    return _alive(Identity(supervisor["pid"], supervisor["start_ticks"]))


def _logics(record: Json) -> set[int]:
    return {device["logic"] for device in record["devices"] or []}


def _living_after_the_end(present: list[Member], answers: dict[str, Json]) -> list[str]:
    """Processes of executions that were said to have ended and to hold nothing, or to be lost or never started."""
    return [
        f"{answers[one.execution_id]['state']} was said of {one}"
        for one in present
        if (row := answers.get(one.execution_id)) is not None
        and (row["state"] in ("lost", "never_started") or (row["state"] == "exited" and row["resources_released"]))
    ]

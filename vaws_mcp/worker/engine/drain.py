"""End a whole process family: find its members again and again, signal each by its identity, until none is left."""

from __future__ import annotations

import os
import signal
import time
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from ..facts import procfs
from ..facts.procfs import Identity, Process
from .linux import send_signal

KILL_BOUND_S = 5.0
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


class Family:
    """A process family, found by ancestry, session, a marker in the environment, and the pipes its output goes to.

    ``outputs`` are those pipes as ``/proc`` names them: who clears its environment and starts a session often
    has them still. Members once seen stay members, with their descendants, also when they leave the session or lose
    their parent.
    """

    def __init__(
        self,
        root: Optional[Identity] = None,
        sid: Optional[int] = None,
        marker: Optional[bytes] = None,
        outputs: FrozenSet[str] = frozenset(),
    ) -> None:
        self.root = root
        self.sid = sid
        self.marker = marker
        self.outputs = outputs
        self.known: Set[Identity] = set()
        if root is not None:
            self.known.add(root)

    def _is_seed(self, process: Process) -> bool:
        if process.identity in self.known or (self.sid is not None and process.sid == self.sid):
            return True
        if self.marker is not None and procfs.has_variable(process.pid, self.marker):
            return True
        return bool(self.outputs) and any(link in self.outputs for link in map(_link_of(process.pid), (1, 2)))

    def members(self) -> List[Process]:
        """Return the living members now; this process is never one."""
        table = procfs.scan()
        table.pop(os.getpid(), None)
        found = {pid for pid, process in table.items() if self._is_seed(process)}
        children: Dict[int, List[int]] = {}
        for pid, process in table.items():
            children.setdefault(process.ppid, []).append(pid)
        todo = list(found)
        while todo:
            for child in children.get(todo.pop(), ()):
                if child not in found:
                    found.add(child)
                    todo.append(child)
        living = [table[pid] for pid in found if table[pid].alive]
        self.known.update(process.identity for process in living)
        return sorted(living)


def _link_of(pid: int) -> Callable[[int], str]:
    def link(fd: int) -> str:
        try:
            return os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            return ""

    return link


class Descendants(Family):
    """All descendants of this very process. Exact when it is a subreaper: nobody below can leave."""

    def _is_seed(self, process: Process) -> bool:
        return process.ppid == os.getpid()


class Drained(NamedTuple):
    """What a drain did: how many processes it signalled, and who still lives after it."""

    signalled: int
    survivors: List[Process]

    def as_dict(self) -> Dict[str, Any]:
        """Return the JSON form."""
        return {"signalled": self.signalled, "survivors": [describe(process) for process in self.survivors]}


def describe(process: Process) -> Dict[str, Any]:
    """Return what a person needs to recognise a process."""
    return {
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "comm": process.comm,
        "title": procfs.title(process.pid, 300),
        "state": process.state,
    }


class Pace(NamedTuple):
    """How a drain waits. Units: grace_s and kill_s bound the two phases, in seconds; ``pause`` sleeps.

    ``first`` is a gentler signal to begin with, and the bound of its phase.
    """

    grace_s: float
    kill_s: float = KILL_BOUND_S
    pause: Callable[[float], None] = time.sleep
    first: Optional[Tuple[int, float]] = None


def drain(family: Family, pace: Pace) -> Drained:
    """Send SIGTERM to every member, wait, send SIGKILL to the rest, until two scans in a row find nobody."""
    signalled: Set[Identity] = set()
    living: List[Process] = []
    phases = [(int(signal.SIGTERM), pace.grace_s), (int(signal.SIGKILL), pace.kill_s)]
    for signum, bound_s in phases if pace.first is None else [pace.first, *phases]:
        living = _phase(family, signum, time.monotonic() + bound_s, pace.pause, signalled)
        if not living:
            break
    return Drained(len(signalled), living)


def _phase(
    family: Family, signum: int, limit: float, pause: Callable[[float], None], signalled: Set[Identity]
) -> List[Process]:
    sent: Set[Identity] = set()
    pause_s, empty_scans = _FIRST_PAUSE_S, 0
    while True:
        living = family.members()
        # A child forked while /proc was being listed can be missed once, so one empty scan proves nothing.
        empty_scans = 0 if living else empty_scans + 1
        if empty_scans == 2:
            return []
        # What a member starts after its SIGTERM is its way of cleaning up.
        told = {process.pid for process in living if process.identity in sent and signum != signal.SIGKILL}
        for process in living:
            fresh = process.identity not in sent and process.ppid not in told
            if fresh and send_signal(process.identity, signum):
                sent.add(process.identity)
                signalled.add(process.identity)
        if living and time.monotonic() >= limit:
            return living
        if living:
            pause(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

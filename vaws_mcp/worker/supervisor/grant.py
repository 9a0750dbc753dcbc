"""What an execution was given, and for how long it keeps it."""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, List, NamedTuple, Optional

from . import leases
from . import status as records
from .choose import Known
from .leases import Held, Place, Record
from .spec import Spec
from .trees import TreeHeld


class Link(NamedTuple):
    """The connection to the reservation that a launch runs in; while it is open the reservation is in use."""

    fd: int
    devices: List[Known]
    ports: List[int]
    git_dirs: List[str]
    held: List[Held]


class Grant(NamedTuple):
    """Everything an execution holds from its admission until its end."""

    place: Place
    devices: List[Known]
    ports: List[int]
    held: List[Held]
    trees: List[TreeHeld]
    link: Optional[Link]

    def release(self) -> None:
        """Give everything back."""
        leases.release_all(self.held)
        for tree in self.trees:
            tree.release()
        if self.link is not None:
            leases.release_all(self.link.held)
            os.close(self.link.fd)

    def environment(self) -> Dict[str, str]:
        """Return the variables that only a grant sets."""
        env: Dict[str, str] = {}
        if self.devices:
            env["ASCEND_RT_VISIBLE_DEVICES"] = ",".join(str(device.logic) for device in self.devices)
        if self.ports:
            env["VAWS_PORTS"] = ",".join(str(port) for port in self.ports)
        return env

    def keep(self, record: Record) -> List[str]:
        """Lock files anew that somebody deleted from under us; returns the keys of those that another has now."""
        now = {**record, "since": records.now()}
        return [lease.key for lease in self.held if not leases.retaken(self.place, lease, now)]

    def inherit(self, record: Record) -> None:
        """Say in the lock files that we are the holder, after the reservation that took the leases has ended.

        From now on the leases are ours to look after.
        """
        if self.link is None:
            return
        for lease in self.link.held:
            for fd in lease.fds:
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    leases.note_holder(fd, {**record, "since": records.now()})
        ours = [lease for lease in self.link.held if not lease.key.startswith("tree:")]
        self.held.extend(ours)
        self.link.held[:] = [lease for lease in self.link.held if lease not in ours]


def holder_record(spec: Spec, since: float, start_ticks: Optional[int]) -> Record:
    """Return what others are shown who want what this execution holds."""
    raw = spec.raw
    record: Dict[str, Any] = {
        "execution_id": spec.execution_id,
        "task_id": raw.get("task_id"),
        "service": raw.get("service"),
        "owner": spec.needs.owner,
        "pid": os.getpid(),
        "start_ticks": start_ticks,
        "since": since,
        "what": "reservation" if spec.needs.hold is not None else "run",
    }
    return record

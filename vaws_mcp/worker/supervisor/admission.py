"""The way from queued to a grant: trees, then the reservation or a turn in the queue, then the probe."""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Optional

from ..facts import procfs
from ..refusal import Refusal
from . import borrow, grant, lease_dir, trees
from . import status as records
from .borrow import Joining, ReservationBusyError
from .devices import Devices
from .grant import Grant, Link
from .journal import Journal
from .leases import Place, Record
from .probing import Probing
from .signals import Signals
from .spec import Spec
from .trees import TreeHeld
from .turn import Turn

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.25


class Admission:
    """One execution's admission. Nothing is kept when ``granted`` raises."""

    def __init__(self, spec: Spec, journal: Journal, signals: Signals, probing: Callable[[], Probing]) -> None:
        self._spec = spec
        self._needs = spec.needs
        self._journal = journal
        self._signals = signals
        self._probing = probing
        own = procfs.identity_of(os.getpid())
        self.record: Record = grant.holder_record(spec, records.now(), None if own is None else own.start_ticks)

    def granted(self) -> Grant:
        """Wait until the execution may start.

        Raises: Refusal ``cancelled``, ``tree_locked``, ``device_unknown``, ``device_unhealthy``, ``port_in_use``,
        ``reservation_gone``.
        """
        found = Grant(Place(str(self._journal.status["boot_id"]), None), [], [], [], [], None)
        try:
            if self._needs.reservation is not None:
                folder = lease_dir.chosen(self._needs.lease_dir)  # for the time after the reservation has ended
                place = found.place._replace(folder=folder)
                found = found._replace(link=self._joined(self._needs.reservation), place=place)
            for tree in self._own_trees(found.link):
                found.trees.append(tree)
            found = self._with_leases(found)
        except BaseException:
            found.release()
            raise
        status = self._journal.status
        status.update(queue=None, blocked=None, ports=found.ports)
        if self._needs.devices is not None:
            status["devices"] = [device.as_json() for device in found.devices]
        return found

    def _own_trees(self, link: Optional[Link]) -> List[TreeHeld]:
        reserved = [] if link is None else link.git_dirs
        held: List[TreeHeld] = []
        try:
            for wish in self._needs.trees:
                if trees.git_dir_of(wish.path) not in reserved:
                    held.append(trees.hold(wish, self.record))
        except BaseException:
            for tree in held:
                tree.release()
            raise
        return held

    def _with_leases(self, found: Grant) -> Grant:
        needs = self._needs
        link = found.link
        if link is None:
            devices = None
            if needs.devices is not None:
                devices = Devices(needs.devices, self._probing(), self._journal)
            if devices is None and not needs.ports and not needs.port_count:
                return found
            return self._turned(found, devices)
        reserved = [port for port in needs.ports if port in link.ports]
        others = [port for port in needs.ports if port not in link.ports]
        if others or needs.port_count:
            found = self._turned(found, None, others)
        found = found._replace(ports=reserved + found.ports)
        if needs.devices is not None:
            self._wait_free(Devices(needs.devices, self._probing(), self._journal), link)
            found = found._replace(devices=link.devices)
        return found

    def _turned(self, found: Grant, devices: Optional[Devices], ports: Optional[List[int]] = None) -> Grant:
        needs = self._needs if ports is None else self._needs._replace(ports=ports)
        taken = Turn(needs, self._journal, self._signals, self.record).take(devices)
        return found._replace(place=taken.place, devices=taken.devices, ports=taken.ports, held=taken.held)

    def _joined(self, reservation: str) -> Link:
        """Enter the reservation, waiting while it is queued itself or another launch has the devices."""
        wish = self._needs.devices
        git_dirs = [trees.git_dir_of(tree.path) for tree in self._needs.trees]
        wanted = Joining(self._spec.execution_id, wish is not None, None if wish is None else wish.ids, git_dirs)
        since = records.now()
        pause_s = _FIRST_PAUSE_S
        while True:
            self._signals.check()
            self._journal.watch()
            waiting: dict[str, object] = {
                "reservation": reservation,
                "holder": None,
                "reason": "the reservation is queued itself",
            }
            try:
                link = borrow.join(reservation, wanted)
            except ReservationBusyError as error:
                waiting.update(holder=error.users[0], reason="another user of the reservation")
                link = None
            if link is not None:
                return link
            queue = {"position": None, "since": since, "waiting_for": [waiting], "ahead": []}
            self._journal.note(queue=queue)
            self._signals.pause(pause_s)
            pause_s = min(pause_s * 1.3, _LONGEST_PAUSE_S)

    def _wait_free(self, devices: Devices, link: Link) -> None:
        """Wait until the reserved devices are free; what an earlier launch left may need a moment."""
        since = records.now()
        while True:
            self._signals.check()
            self._journal.watch()
            if devices.due() and devices.allowed(link.devices):
                return
            waiting = [
                {"bus_id": device.bus_id, "logic": device.logic, "holder": None, "reason": devices.busy[device.logic]}
                for device in link.devices
                if device.logic in devices.busy
            ]
            self._journal.note(queue={"position": 1, "since": since, "waiting_for": waiting, "ahead": []})
            self._signals.pause(_LONGEST_PAUSE_S)


def blocked_by(refusal: Refusal) -> Dict[str, object]:
    """Return how a refusal is told in the record."""
    return {"code": refusal.code, "message": refusal.message, "hint": refusal.hint, "details": refusal.details}

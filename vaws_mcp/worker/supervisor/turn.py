"""Waiting for one's turn: a ticket, then all leases at once, then the probe; and back again if it says no."""

from __future__ import annotations

import socket
import time
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Set

from ..engine.ports import is_bindable
from ..refusal import Refusal
from . import choose, lease_dir, leases, scope, tickets
from . import status as records
from .choose import Known
from .devices import Devices
from .journal import Journal
from .leases import Held, LeaseHeldError, Place, Record
from .signals import Signals
from .tickets import PORT_PREFIX, QueueBusyError, Ticket
from .wishes import Needs

_FIRST_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.25
_NOTE_EVERY_S = 1.0
_PORT_GRACE_S = 3.0
_PORT_TRIES = 50
RELOCK_S = 7.0  # the holders of leases look every five seconds whether their lock files are still there


class Taken(NamedTuple):
    """What a turn brought."""

    place: Place
    devices: List[Known]
    ports: List[int]
    held: List[Held]


class Turn:
    """One request in the queue. ``take`` returns when everything is held, or raises."""

    def __init__(self, needs: Needs, journal: Journal, signals: Signals, record: Record) -> None:
        self._needs = needs
        self._journal = journal
        self._signals = signals
        self._record = record
        self._devices: Optional[Devices] = None
        self._folder = lease_dir.chosen(needs.lease_dir)
        self._place = Place(str(journal.status["boot_id"]), self._folder)
        self._ticket: Optional[Ticket] = None
        self._since = records.now()
        self._pause_s = _FIRST_PAUSE_S
        self._next_note = 0.0
        self._network = scope.network_namespace()
        self._port_limit: Optional[float] = None
        self._settled = 0.0

    def take(self, devices: Optional[Devices]) -> Taken:
        """Wait until everything is ours.

        Raises: Refusal ``cancelled``, ``device_unknown``, ``device_unhealthy``, ``port_in_use``.
        """
        self._devices = devices
        self._prepare()
        try:
            while True:
                self._signals.check()
                self._journal.watch()
                taken = self._step()
                if taken is not None:
                    self._journal.status.update(queue=None, blocked=None)
                    return taken
                self._signals.pause(self._pause_s)
                self._pause_s = min(self._pause_s * 1.3, _LONGEST_PAUSE_S)
        finally:
            self._drop_ticket()  # only now: whoever comes next finds the leases taken

    def _prepare(self) -> None:
        trouble: Optional[str] = None
        try:
            lease_dir.prepare(self._folder)
        except OSError as error:
            trouble = f"{self._folder}: {error.strerror or error}"
            self._place = self._place._replace(folder=None)
        self._tell_scope(trouble)

    def _tell_scope(self, trouble: Optional[str]) -> None:
        proven = scope.prove(self._place.folder, trouble)
        self._journal.status.update(lease_scope=proven.scope, lease_scope_why=proven.why)

    def _tell_blind(self, chosen: List[Known]) -> None:
        names = [str(device.logic) for device in chosen if device.key == device.alias]
        if names:
            why = (
                f"the bus ids of device {', '.join(names)} are not known, so nobody outside this container is excluded"
            )
            self._journal.status.update(lease_scope="container", lease_scope_why=why)

    def _without_folder(self, error: OSError) -> None:
        """Go on with the sockets alone, and say so, after the directory turned out not to be usable."""
        self._drop_ticket()
        self._place = self._place._replace(folder=None)
        self._tell_scope(f"{self._folder}: {error.strerror or error}")

    def _drop_ticket(self) -> None:
        if self._ticket is not None:
            self._ticket.drop()
            self._ticket = None

    def _step(self) -> Optional[Taken]:
        if self._devices is not None and not self._devices.learn():
            self._drop_ticket()  # nobody shall wait behind one whose probe does not work
            self._note([], [])
            return None
        try:
            first = self._is_first()
        except QueueBusyError as error:
            hint = "Find the process that holds it (fuser shows it), and end it."
            self._journal.note(blocked={"code": "lease_dir_unusable", "message": str(error), "hint": hint})
            return None
        except OSError as error:
            self._without_folder(error)
            return None
        return self._attempt() if first else None

    def _is_first(self) -> bool:
        if self._place.folder is None:
            return True
        if self._ticket is not None and not self._ticket.valid():
            self._drop_ticket()
            lease_dir.prepare(self._place.folder)
            self._settled = time.monotonic() + RELOCK_S
        if self._ticket is None:
            record = {**self._record, "since": self._since}
            self._ticket = tickets.take(self._place.folder, self._keys(), record, self._signals.pause)
        before = self._ticket.ahead()
        if before:
            self._note_waiting(before)
        elif time.monotonic() < self._settled:  # the directory was deleted: whoever holds a lease locks it anew first
            self._note([], self._holders())
            return False
        return not before

    def _keys(self) -> FrozenSet[str]:
        keys: Set[str] = {self._port_key(port) for port in self._needs.ports}
        if self._devices is not None:
            keys.update(choose.wanted_keys(self._devices.wish, self._devices.known))
        return frozenset(keys)

    def _port_key(self, port: int) -> str:
        return f"{PORT_PREFIX}{self._network}-{port}"

    def _attempt(self) -> Optional[Taken]:
        devices = self._devices
        held_by_others: Set[int] = set()
        while True:
            chosen: Optional[List[Known]] = []
            if devices is not None:
                chosen = choose.pick(devices.wish, devices.known, devices.without() | frozenset(held_by_others))
            if chosen is None:
                self._note_none_left(held_by_others)
                return None
            if devices is not None and devices.failures and not devices.due():
                return None
            try:
                held = leases.take_all(self._place, self._lease_keys(chosen), self._held_by())
            except LeaseHeldError as error:
                owner = next((device for device in chosen if error.key in device.keys), None)
                if owner is not None and devices is not None and devices.wish.how_many is not None:
                    held_by_others.add(owner.logic)
                    continue
                self._note_key(error.key, owner)
                return None
            except OSError as error:
                if self._place.folder is None:
                    raise
                self._without_folder(error)
                return None
            return self._checked(chosen, held)

    def _held_by(self) -> Record:
        return {**self._record, "since": records.now()}

    def _lease_keys(self, chosen: List[Known]) -> Set[str]:
        keys = {self._port_key(port) for port in self._needs.ports}
        keys.update(key for device in chosen for key in device.keys)
        return keys

    def _checked(self, chosen: List[Known], held: List[Held]) -> Optional[Taken]:
        ports = list(self._needs.ports)
        complete = False
        try:
            if self._devices is not None and not self._devices.allowed(chosen):
                self._note_busy(chosen)
                return None
            if not self._ports_open():
                return None
            ports += self._free_ports(held)
            self._tell_blind(chosen)
            complete = True
        finally:
            if not complete:
                leases.release_all(held)
        return Taken(self._place, chosen, ports, held)

    def _ports_open(self) -> bool:
        used = [port for port in self._needs.ports if is_bindable(port) is False]
        if not used:
            return True
        if self._port_limit is None:
            self._port_limit = time.monotonic() + _PORT_GRACE_S  # the last user may just be closing it
        if time.monotonic() < self._port_limit:
            return False
        names = ", ".join(str(port) for port in used)
        hint = "Use another port, or end what listens there."
        raise Refusal("port_in_use", f"port {names} is in use by a process that holds no lease of it", hint=hint)

    def _free_ports(self, held: List[Held]) -> List[int]:
        found: List[int] = []
        for _ in range(_PORT_TRIES):
            if len(found) == self._needs.port_count:
                return found
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            lease = leases.take(self._place, self._port_key(port), self._held_by())
            if lease is not None:
                held.append(lease)
                found.append(port)
        raise Refusal("no_free_port", f"no {self._needs.port_count} free ports were found in {_PORT_TRIES} tries")

    def _note_waiting(self, before: List[tickets.Entry]) -> None:
        numbers = [entry.number for entry in before]
        queue: Optional[Dict[str, Any]] = self._journal.status["queue"]
        known = queue is not None and [entry["number"] for entry in queue["ahead"]] == numbers
        if known and time.monotonic() < self._next_note:
            return
        if not known:
            self._pause_s = _FIRST_PAUSE_S
        self._next_note = time.monotonic() + _NOTE_EVERY_S
        self._note(before, self._holders())

    def _holders(self) -> List[Dict[str, Any]]:
        """Return who holds what we want, as far as it is held; for any devices, all that are held."""
        wanted = [self._waiting(self._port_key(port), None) for port in self._needs.ports]
        if self._devices is not None:
            ids = self._devices.wish.ids
            known = self._devices.known
            devices = [known[logic] for logic in (sorted(known) if ids is None else ids)]
            wanted += [self._waiting(device.key, device) for device in devices]
        return [entry for entry in wanted if entry["holder"] is not None]

    def _waiting(self, key: str, device: Optional[Known]) -> Dict[str, Any]:
        holder = leases.holder_of(self._place, key)
        if holder is not None and holder.get("execution_id") == self._record.get("execution_id"):
            holder = None  # ourselves, for the moment of a look at the devices
        logic = None if device is None else device.logic
        reason = (self._devices.busy if self._devices is not None else {}).get(-1 if logic is None else logic)
        if holder is not None:
            reason = "it is leased"
        name = {"port": int(key.rpartition("-")[2])} if device is None else {"bus_id": device.bus_id}
        return {**name, "logic": logic, "holder": holder, "reason": reason}

    def _note_key(self, key: str, device: Optional[Known]) -> None:
        entry = self._waiting(device.key if device is not None else key, device)
        entry["reason"] = "it is leased"
        self._note([], [entry])

    def _note_busy(self, chosen: List[Known]) -> None:
        devices = self._devices
        if devices is not None:
            self._note([], [self._waiting(d.key, d) for d in chosen if d.logic in devices.busy])
            if devices.unusable():
                self._drop_ticket()

    def _note_none_left(self, held_by_others: Set[int]) -> None:
        devices = self._devices
        if devices is None:
            return
        logics = sorted({*devices.busy, *held_by_others})
        if devices.wish.ids is not None:
            logics = [logic for logic in devices.wish.ids if logic in logics]
        if time.monotonic() >= self._next_note:
            self._next_note = time.monotonic() + _NOTE_EVERY_S
            self._note([], [self._waiting(devices.known[logic].key, devices.known[logic]) for logic in logics])
        if devices.due():
            devices.forget_busy()

    def _note(self, before: List[tickets.Entry], waiting_for: List[Dict[str, Any]]) -> None:
        shown = ("execution_id", "task_id", "owner", "service", "since")
        ahead = [{"number": entry.number, **{name: entry.record.get(name) for name in shown}} for entry in before]
        position = None if self._place.folder is None else len(ahead) + 1
        queue = {"position": position, "since": self._since, "waiting_for": waiting_for, "ahead": ahead}
        self._journal.note(queue=queue)

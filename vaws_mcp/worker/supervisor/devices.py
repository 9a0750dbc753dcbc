"""What one supervisor knows of the devices: their names, and what the last probe said of them."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import time
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Optional, cast

from ..engine.atomic import replace_file
from ..facts import procfs
from ..refusal import Refusal
from . import choose, scope
from . import status as records
from .choose import DeviceWish, Known
from .journal import Journal
from .probing import Probing

if TYPE_CHECKING:
    from ..engine.npu.probe import Seen, Snapshot

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 10.0
FAILURES_THAT_COUNT = 3


class Devices:
    """The devices as one request sees them. ``busy`` holds by logic id why the last probe did not allow a device."""

    def __init__(self, wish: DeviceWish, probing: Probing, journal: Journal) -> None:
        self.wish = wish
        self.known: Dict[int, Known] = {}
        self.busy: Dict[int, str] = {}
        self.failures = 0
        self._fresh = False
        self._due = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._container = scope.mount_namespace()
        self._probing = probing
        self._journal = journal

    def due(self) -> bool:
        """Tell whether another probe may be made now."""
        return time.monotonic() >= self._due

    def unusable(self) -> bool:
        """Tell whether the probe has failed so often that others should not wait behind us."""
        return self.failures >= FAILURES_THAT_COUNT

    def learn(self) -> bool:
        """Get to know the devices' names, from an earlier probe if possible; False when the probe does not work now.

        Raises: Refusal ``device_unknown`` when the request can never be fulfilled here, ``cancelled``.
        """
        if self.known and not self.unusable():
            return True
        if not self.known and not self.failures and self._remembered():
            return True
        if not self.due():
            return False
        found = self._probe()
        if found.ok:
            self.known = choose.device_map(found, self._container)
            self._fresh = True
            choose.check_possible(self.wish, self.known)
            _remember(self.known)
            return True
        return self._blind()

    def _remembered(self) -> bool:
        self.known = _recall(self._container)
        try:
            choose.check_possible(self.wish, self.known)
        except Refusal:
            self.known = {}  # the machine may have changed; only a probe of now may refuse
        return bool(self.known)

    def _blind(self) -> bool:
        if not self.wish.assume_free:
            return False
        count = len(glob.glob("/dev/davinci[0-9]*"))
        ids = self.wish.ids if self.wish.ids is not None else range(count)
        self.known = choose.blind_map(ids, self._container)
        if self.wish.how_many is not None and self.wish.how_many > len(self.known):
            self.known = {}
        self.failures = 0 if self.known else self.failures
        return bool(self.known)

    def _probe(self) -> Snapshot:
        found = self._probing.now()
        at = records.now()
        self._journal.status["probe"] = {
            "at": at,
            "ok": found.ok,
            "error": found.error,
            "process_table": found.process_table,
        }
        self._due = time.monotonic() + self._pause_s
        self._pause_s = min(self._pause_s * 1.5, LONGEST_PAUSE_S)
        self.failures = 0 if found.ok else self.failures + 1
        self._journal.note(blocked=None if found.ok else found.error)
        return found

    def forget_busy(self) -> None:
        """Let devices be tried again that the last probe did not allow."""
        self.busy = {}

    def allowed(self, chosen: List[Known]) -> bool:
        """Probe now, with the leases of ``chosen`` in our hands, and tell whether all of them may be used.

        Raises: Refusal ``device_unhealthy`` when waiting cannot help, ``cancelled``.
        """
        found = self._probe()
        if not found.ok:
            if self.wish.assume_free:
                self._journal.status["assumed_free"] = True
                self._journal.note(blocked=None)
                self.failures = 0
            return self.wish.assume_free
        now = choose.device_map(found, self._container)
        if not self._same_names(chosen, now):
            if not self.known:
                message = "the devices of the reservation have other names here now"
                raise Refusal("device_unknown", message, hint="End the reservation and take a new one.")
            self.known = now  # the numbering changed: lease the right ones
            choose.check_possible(self.wish, now)
            _remember(now)
            return False
        seen = {entry.logic: entry for entry in found.devices if entry.logic is not None}
        return self._judged(chosen, seen)

    def _same_names(self, chosen: List[Known], now: Dict[int, Known]) -> bool:
        blind = all(device.key == device.alias for device in chosen)
        return not (blind and now) and all(now.get(device.logic, device).key == device.key for device in chosen)

    def _judged(self, chosen: List[Known], seen: Dict[int, Seen]) -> bool:
        every = {logic: choose.judge(seen.get(logic), self.wish) for logic in {*self.known, *(d.logic for d in chosen)}}
        self.busy = {logic: verdict.reason for logic, verdict in every.items() if not verdict.usable}
        self._refuse_hopeless({logic for logic, verdict in every.items() if verdict.hopeless}, chosen)
        if any(device.logic in self.busy for device in chosen):
            return False
        for device in chosen:
            entry = seen.get(device.logic)
            if entry is None or entry.occupancy == "unknown":
                self._journal.status["assumed_free"] = True
        self._journal.status["health_skipped"] = self.wish.skip_health
        return True

    def _refuse_hopeless(self, hopeless: set[int], chosen: List[Known]) -> None:
        asked = hopeless & {device.logic for device in chosen} if self.wish.how_many is None else hopeless
        if not asked or (self.wish.how_many is not None and len(self.known) - len(hopeless) >= self.wish.how_many):
            return
        why = "; ".join(f"device {logic}: {self.busy[logic]}" for logic in sorted(asked))
        hint = "Ask for other devices, or use the explicit way around the health check, which is recorded."
        raise Refusal("device_unhealthy", why, hint=hint, details={"devices": sorted(asked)})

    def without(self) -> FrozenSet[int]:
        """Return the devices that the last probe did not allow."""
        return frozenset(self.busy)


def _cache_path() -> str:
    return os.path.join(os.path.expanduser("~"), ".vaws", "npu-map.json")


def _remember(known: Dict[int, Known]) -> None:
    entry = {"boot_id": procfs.boot_id(), "devices": [device._asdict() for device in known.values()]}
    with contextlib.suppress(OSError):
        replace_file(_cache_path(), json.dumps(entry).encode("ascii"), make_parents=True)


def _recall(container: str) -> Dict[int, Known]:
    """Return the names from an earlier probe in this container since the machine was started.

    They are checked by the probe under the leases, so an outdated one costs a probe and nothing else.
    """
    raw = procfs.read_small(_cache_path())
    entry: Optional[Dict[str, Any]] = None
    with contextlib.suppress(ValueError):
        entry = cast("Dict[str, Any]", json.loads((raw or b"null").decode("utf-8")))
    try:
        if entry is None or entry["boot_id"] != procfs.boot_id():
            return {}
        devices = [Known(**fields) for fields in entry["devices"]]
    except (KeyError, TypeError):
        return {}
    if any(device.alias != choose.alias_of(device.logic, container) for device in devices):
        return {}
    return {device.logic: device for device in devices}

"""Which devices a request could have: pure decisions over what is known of the machine's devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Tuple

from ..refusal import Refusal
from .leases import safe_key

if TYPE_CHECKING:
    from ..engine.npu.probe import Seen, Snapshot  # what needs no device shall not wait for its import

MAYBE_FREE = ("free", "unknown")


class Known(NamedTuple):
    """A device as this container numbers it. ``key`` is the same in every container of the machine.

    ``alias`` names it by its number here, for the case that one of two requesters could not learn its bus id.
    """

    logic: int
    key: str
    alias: str
    npu: Optional[int] = None
    chip: Optional[int] = None
    phy: Optional[int] = None
    bus_id: Optional[str] = None

    @property
    def keys(self) -> Tuple[str, str]:
        """Both names; a lease of the device is a lease of both."""
        return (self.key, self.alias)

    def as_json(self) -> Dict[str, Any]:
        """Return what a grant says of the device."""
        return {"logic": self.logic, "phy": self.phy, "npu": self.npu, "chip": self.chip, "bus_id": self.bus_id}


class DeviceWish(NamedTuple):
    """What devices are asked for: ``ids`` (logic ids in order), ``how_many`` of any, or ``reserved`` (all of it).

    ``assume_free``: take devices of which the probe knows nothing. ``skip_health``: take unhealthy ones too.
    """

    ids: Optional[List[int]] = None
    how_many: Optional[int] = None
    reserved: bool = False
    assume_free: bool = False
    skip_health: bool = False


class Verdict(NamedTuple):
    """Whether a device may be used now. ``hopeless``: it will not become usable by waiting."""

    usable: bool
    reason: str
    assumed: bool = False
    hopeless: bool = False


def device_map(found: Snapshot, container: str) -> Dict[int, Known]:
    """Return the devices by logic id; one without a logic id cannot be given to a command."""
    known: Dict[int, Known] = {}
    for seen in found.devices:
        if seen.logic is not None:
            device = seen.device
            known[seen.logic] = Known(
                seen.logic,
                safe_key(seen.key),
                alias_of(seen.logic, container),
                device.npu,
                device.chip,
                device.phy,
                device.bus_id,
            )
    return known


def alias_of(logic: int, container: str) -> str:
    """Return the name of a device that only one container uses."""
    return f"logic{logic}-{container}"


def blind_map(ids: Iterable[int], container: str) -> Dict[int, Known]:
    """Return a map for devices that could never be seen, known by their number in this container alone."""
    return {logic: Known(logic, alias_of(logic, container), alias_of(logic, container)) for logic in ids}


def judge(seen: Optional[Seen], wish: DeviceWish) -> Verdict:
    """Judge one device by a probe made just now; None means that the probe did not show it."""
    if seen is None:
        return Verdict(wish.assume_free, "the probe does not show it", assumed=wish.assume_free)
    if seen.occupancy == "free":
        return Verdict(True, seen.reason)
    if seen.occupancy == "unhealthy":
        if not wish.skip_health:
            return Verdict(False, seen.reason, hopeless=True)
        if seen.device.processes:
            return Verdict(False, f"{seen.reason}, and {len(seen.device.processes)} processes are on it")
        return Verdict(True, seen.reason, assumed=True)
    if seen.occupancy == "unknown" and wish.assume_free:
        return Verdict(True, seen.reason, assumed=True)
    return Verdict(False, seen.reason)


def check_possible(wish: DeviceWish, known: Dict[int, Known]) -> None:
    """Raise the refusal of a request that this machine can never fulfil. Raises: Refusal ``device_unknown``."""
    have = ", ".join(str(logic) for logic in sorted(known)) or "none"
    missing = [logic for logic in wish.ids or () if logic not in known]
    if missing:
        names = ", ".join(str(logic) for logic in missing)
        raise Refusal("device_unknown", f"there is no device {names} here; logic ids here: {have}", "caller")
    if wish.how_many is not None and wish.how_many > len(known):
        message = f"{wish.how_many} devices are asked for, and there are {len(known)} here"
        raise Refusal("device_unknown", message, "caller")


def wanted_keys(wish: DeviceWish, known: Dict[int, Known]) -> FrozenSet[str]:
    """Return what a ticket for these devices says."""
    if wish.ids is None:
        return frozenset(("*",))
    return frozenset(key for logic in wish.ids for key in known[logic].keys)


def pick(wish: DeviceWish, known: Dict[int, Known], without: FrozenSet[int]) -> Optional[List[Known]]:
    """Choose devices, none of ``without``; None when that is not possible.

    Of any devices those are preferred that are on the fewest cards, then close together, then low.
    """
    if wish.ids is not None:
        return None if without.intersection(wish.ids) else [known[logic] for logic in wish.ids]
    count = wish.how_many or 0
    left = [known[logic] for logic in sorted(known) if logic not in without]
    windows = [left[at : at + count] for at in range(len(left) - count + 1)]
    return min(windows, key=_spread) if windows else None


def _spread(window: List[Known]) -> Tuple[int, int, int]:
    cards = {device.npu for device in window}
    return (len(cards), window[-1].logic - window[0].logic, window[0].logic)

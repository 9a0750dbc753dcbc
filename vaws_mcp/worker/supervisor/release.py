"""After the end: whether the devices are free again. Memory of a device may take a moment to be given back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable, List, Optional, Tuple

from . import choose
from .choose import DeviceWish

if TYPE_CHECKING:
    from ..engine.npu.probe import Snapshot

BOUND_S = 20.0
_FAILURES = 3
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


def devices_free(
    devices: List[int], wish: DeviceWish, probe: Callable[[], Snapshot], pause: Callable[[float], None]
) -> Tuple[bool, Optional[str]]:
    """Probe until all these logic ids may be used again, at most 20 s; says whether, and why not.

    When the probe does not work, only a grant that was made without a probe counts as given back.
    """
    limit = time.monotonic() + BOUND_S
    pause_s, failures = _FIRST_PAUSE_S, 0
    while True:
        found = probe()
        if found.ok:
            why = _not_free(devices, wish, found)
        else:
            failures += 1
            if failures >= _FAILURES or wish.assume_free or time.monotonic() >= limit:
                message = (found.error or {}).get("message") or "it gave no reason"
                return wish.assume_free, f"whether the devices are free again is not known: {message}"
            why = None
        if found.ok and why is None:
            return True, None
        if time.monotonic() >= limit:
            return False, f"after {BOUND_S:.0f} s not free again: {why or 'the probe does not work'}"
        pause(pause_s)
        pause_s = min(pause_s * 1.7, _LONGEST_PAUSE_S)


def _not_free(devices: List[int], wish: DeviceWish, found: Snapshot) -> Optional[str]:
    seen = {entry.logic: entry for entry in found.devices}
    verdicts = {logic: choose.judge(seen.get(logic), wish) for logic in devices}
    reasons = [f"device {logic}: {verdict.reason}" for logic, verdict in verdicts.items() if not verdict.usable]
    return "; ".join(reasons) or None

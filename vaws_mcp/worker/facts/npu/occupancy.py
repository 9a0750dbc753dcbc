"""Whether a device is free.

Free is only what is healthy, has no process, uses no more memory than an idle chip of its kind, and whose process table
is there and whole. The idle figures are facts about the products; nothing is learned from the devices at hand.
"""

from __future__ import annotations

import re
from typing import List, Optional

from .models import FREE, MISSING, OCCUPIED, UNHEALTHY, UNKNOWN, Device, Judged, Process

# The most that an idle chip has been seen to use, in GB as it is stated, with half a unit of its last digit for the
# rounding. A first-generation 910 was seen at 18 MB, and the smallest process takes more than 100.
_IDLE_GB = {"a2": 3.5, "a3.0": 3.1, "a3.1": 2.9, "a5": 6.6}
_IDLE_MB = {"310p": 1900, "910": 100}
_FAMILIES = (
    (re.compile(r"(ascend)?950", re.I), "a5"),
    (re.compile(r"310P", re.I), "310p"),
    (re.compile(r"910B\d", re.I), "a2"),
    (re.compile(r"(ascend910$|910C|910_93)", re.I), "a3"),
    (re.compile(r"910(A|B$|Pro|Premium)", re.I), "910"),
)


def idle_mb(layout: Optional[str], device: Device) -> Optional[int]:
    """Return how much memory an idle chip of this kind uses at most, or None when that is not known. Units: MB."""
    name = re.sub(r"^Ascend\s+", "", device.name or "", flags=re.I)
    family = next((family for pattern, family in _FAMILIES if pattern.match(name)), None)
    if family == "a3":
        # The name alone is shared with other products; the two dies of a card are not.
        family = f"a3.{device.chip}" if layout == "a3" else None
    if family in _IDLE_GB:
        return int((_IDLE_GB[family] + 0.05) * 1024)
    return _IDLE_MB.get(family or "")


def judge(device: Device, layout: Optional[str], process_table: str) -> Judged:
    """Say whether a device may be given away, and why or why not."""
    health = device.health
    if device.processes:
        sick = f"; its health is {health}" if health != "OK" else ""
        return Judged(OCCUPIED, f"{_listed(device.processes)} on it{sick}.")
    limit, used = idle_mb(layout, device), device.hbm_used_mb
    if limit is not None and used is not None and used > limit:
        return Judged(OCCUPIED, f"{used} MB of its memory are in use without a visible process; idle is up to {limit}.")
    if health is None or health.upper() == "UNKNOWN":
        return Judged(UNKNOWN, "Its health is not known.")
    if health != "OK":
        return Judged(UNHEALTHY, f"Its health is {health}.")
    if process_table == MISSING:
        return Judged(UNKNOWN, "The process table is missing or not whole, so nothing shows that it is free.")
    if used is None:
        return Judged(UNKNOWN, "Its memory in use is not known.")
    if limit is None:
        return Judged(UNKNOWN, f"How much memory an idle {device.name} uses is not known; {used} MB are in use.")
    return Judged(FREE, f"Healthy, no process, {used} MB in use where idle is up to {limit}.")


def _listed(processes: List[Process]) -> str:
    shown = ", ".join(
        f"{process.pid} ({process.name})" if process.name else str(process.pid) for process in processes[:4]
    )
    more = f" and {len(processes) - 4} more" if len(processes) > 4 else ""
    one = len(processes) == 1
    return f"{'Process' if one else 'Processes'} {shown}{more} {'is' if one else 'are'}"

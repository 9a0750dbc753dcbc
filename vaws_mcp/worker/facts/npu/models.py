"""What is known of the devices of a machine. A fact that is not known is None, never 0."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

FREE, OCCUPIED, UNHEALTHY, UNKNOWN = "free", "occupied", "unhealthy", "unknown"
COMPLETE, MAYBE_TRUNCATED, MISSING = "complete", "maybe_truncated", "missing"


class Process(NamedTuple):
    """A process on a device. ``pid`` is one of the host; ``container_pid`` is the one in its container, if printed."""

    pid: int
    name: Optional[str] = None
    memory_mb: Optional[int] = None
    container_pid: Optional[int] = None


class Device(NamedTuple):
    """One chip. ``chip`` counts within a card; ``logic`` is the number in ASCEND_RT_VISIBLE_DEVICES.

    Units: memory in MB as npu-smi prints it; where a chip has no HBM it is the chip's own memory.
    """

    npu: int
    chip: Optional[int] = None
    logic: Optional[int] = None
    phy: Optional[int] = None
    name: Optional[str] = None
    health: Optional[str] = None
    power_w: Optional[float] = None
    temp_c: Optional[int] = None
    bus_id: Optional[str] = None
    util_pct: Optional[int] = None
    hbm_used_mb: Optional[int] = None
    hbm_total_mb: Optional[int] = None
    processes: List[Process] = []  # noqa: RUF012 - never changed in place

    @property
    def key(self) -> str:
        """The name of the chip for leases: its bus id, or ``npu<id>c<chip>`` where npu-smi prints none."""
        return self.bus_id or f"npu{self.npu}c{self.chip or 0}"

    def as_json(self) -> Dict[str, Any]:
        """Return the JSON form, with the pids instead of the processes."""
        found: Dict[str, Any] = dict(self._asdict())
        del found["processes"]
        found["pids"] = [process.pid for process in self.processes]
        return found


class Judged(NamedTuple):
    """Whether a device may be given away, and why or why not in one sentence."""

    occupancy: str
    reason: str


class MapRow(NamedTuple):
    """One line of ``npu-smi info -m``."""

    npu: int
    chip: Optional[int] = None
    logic: Optional[int] = None
    phy: Optional[int] = None
    name: Optional[str] = None
    slot: Optional[int] = None


class Health(NamedTuple):
    """What ``-t health`` says of a chip; ``error_codes`` are hexadecimal."""

    health: Optional[str]
    error_codes: List[str]


class Usage(NamedTuple):
    """What ``-t usages`` and ``-t memory`` say of a chip. Units: MB, percent."""

    hbm_total_mb: Optional[int] = None
    hbm_pct: Optional[int] = None
    aicore_pct: Optional[int] = None
    npu_util_pct: Optional[int] = None

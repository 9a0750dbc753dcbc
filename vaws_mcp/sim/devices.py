"""Which process holds how much memory of which simulated NPU.

Each holder has a file ``devices/<logic id>/<pid>.json`` in the sandbox. An entry counts only while exactly that process
lives, so a killed holder frees its device without anybody cleaning up.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from vaws_mcp.sim.processes import Identity, is_alive, own_identity

HBM_MB = 65536
BUS_A2 = ("C1", "C2", "81", "82", "01", "02", "41", "42")
BUS_A3 = ("9D", "9F", "99", "9B", "95", "97", "91", "93", "8D", "8F", "89", "8B", "85", "87", "81", "83")


@dataclass(frozen=True)
class Holder:
    """A live process on a device. Units: MB."""

    pid: int
    name: str
    memory_mb: int


@dataclass(frozen=True)
class Device:
    """One chip: ``npu`` and ``chip`` name it for ``npu-smi``, ``logic`` for ``ASCEND_RT_VISIBLE_DEVICES``."""

    logic: int
    npu: int
    chip: int
    bus_id: str
    idle_mb: int
    holders: tuple[Holder, ...]

    @property
    def used_mb(self) -> int:
        """Memory in use, with the idle baseline of the chip."""
        return min(HBM_MB, self.idle_mb + sum(holder.memory_mb for holder in self.holders))


def _bus_id(logic: int, layout: str) -> str:
    names = BUS_A3 if layout == "a3" else BUS_A2
    return f"{logic // len(names):04X}:{names[logic % len(names)]}:00.0"


def _holders(folder: Path) -> tuple[Holder, ...]:
    found: list[Holder] = []
    for path in sorted(folder.glob("*.json")):
        try:
            entry = json.loads(path.read_text(encoding="utf-8"))
            identity = Identity(entry["pid"], entry["start_ticks"])
            name = Path(f"/proc/{identity.pid}/comm").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            continue
        if is_alive(identity):
            found.append(Holder(identity.pid, name.replace(":", ""), entry["memory_mb"]))
    return tuple(found)


def list_devices(root: str, count: int, layout: str) -> list[Device]:
    """Return all devices of the container with their live holders, by logic id."""
    devices: list[Device] = []
    for logic in range(count):
        npu, chip = divmod(logic, 2) if layout == "a3" else (logic, 0)
        idle = 3400 + logic if layout == "a2" else (2880 if chip else 3120) + logic
        holders = _holders(Path(root) / "devices" / str(logic))
        devices.append(Device(logic, npu, chip, _bus_id(logic, layout), idle, holders))
    return devices


def hold(root: str, logic: int, memory_mb: int) -> Path:
    """Record that this process holds memory of a device; a second call replaces the amount."""
    folder = Path(root) / "devices" / str(logic)
    folder.mkdir(parents=True, exist_ok=True)
    me = own_identity()
    path = folder / f"{me.pid}.json"
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({"pid": me.pid, "start_ticks": me.start_ticks, "memory_mb": memory_mb}))
    draft.replace(path)
    return path


def visible_devices(count: int) -> list[int]:
    """Return the logic ids this process may use, from ``ASCEND_RT_VISIBLE_DEVICES``.

    Raises: ValueError with the runtime's own words when an id does not exist.
    """
    text = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if text is None:
        return list(range(count))
    chosen: list[int] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        if not word.isdigit() or int(word) >= count:
            raise ValueError(
                f"Set visible device failed, set ASCEND_RT_VISIBLE_DEVICES:{text} error, input data rang[0-{count})"
            )
        chosen.append(int(word))
    return chosen

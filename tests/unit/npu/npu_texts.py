"""Writes what npu-smi prints, in every layout, from a list of chips. It shares no code with the parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Chip:
    """A chip as a text shows it. ``processes``: pid, name, MB, and the pid in its container if the layout has it."""

    npu: int
    chip: int = 0
    name: str = "910B3"
    health: str = "OK"
    used: int | None = 3400
    total: int = 65536
    bus: str = "0000:C1:00.0"
    processes: tuple[tuple[int, str, int, int | None], ...] = field(default=())


class Shape(NamedTuple):
    """Widths of the three cells of a layout, and whether its process table has container pids."""

    widths: tuple[int, int, int]
    container: bool = False


SHAPES = {
    "classic": Shape((27, 15, 52)),
    "a3": Shape((27, 15, 52)),
    "classic_wide": Shape((27, 15, 70), container=True),
    "a3_wide": Shape((27, 15, 70), container=True),
    "310p": Shape((31, 17, 54)),
    "a5": Shape((27, 15, 53)),
    "a5_wide": Shape((27, 15, 72), container=True),
}
NAMES = {"a3": "Ascend910", "310p": "310P3", "a5": "Ascend950PR"}
IDLE = {"classic": 3400, "a3": 2885, "310p": 1851, "a5": 5411}


def family(layout: str) -> str:
    return layout.removesuffix("_wide")


def chips(layout: str, cards: int = 3) -> list[Chip]:
    """Idle chips of a machine with so many cards."""
    kind = family(layout)
    found: list[Chip] = []
    for number in range(cards):
        npu = (0, 32, 32768, 96, 7, 9, 11, 12)[number] if kind == "310p" else number
        for chip in range(2 if kind == "a3" else 1):
            bus = f"0000:{0x81 + 2 * number + chip:02X}:00.0"
            found.append(Chip(npu, chip, NAMES.get(kind, "910B3"), used=IDLE[kind] + number, bus=bus))
    return found


def _line(cells: list[str], widths: tuple[int, ...]) -> str:
    return "|" + "|".join(f" {cell:<{width - 1}}" for cell, width in zip(cells, widths, strict=True)) + "|"


def _rule(mark: str, widths: tuple[int, ...]) -> str:
    return "+" + "+".join(mark * width for width in widths) + "+"


def info(layout: str, devices: list[Chip], driver: str = "25.2.0") -> str:
    """The text of plain ``npu-smi info``."""
    widths = SHAPES[layout].widths
    total = sum(widths) + 2
    columns = (8, 18, *widths[1:]) if family(layout) == "a5" else widths
    lines = [_rule("-", (total,)), _line([f"npu-smi {driver:<24} Version: {driver}"], (total,)), _rule("-", columns)]
    lines += [_line(row, columns) for row in _heading(layout)] + [_rule("=", columns)]
    for number, device in enumerate(devices):
        lines += [_line(row, columns) for row in _rows(layout, number, device)]
        same_card = number + 1 < len(devices) and devices[number + 1].npu == device.npu
        lines.append(_rule("-", (total,)) if same_card else _rule("=", columns))
    return "\n".join([*lines, *_processes(layout, devices)]) + "\n"


def _heading(layout: str) -> list[list[str]]:
    kind = family(layout)
    top = "Power(W)    Temp(C)           Hugepages-Usage(page)"
    if kind == "a5":
        return [
            ["NPU ID", "Name", "Health", top],
            ["", "", "Bus-Id", "NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)"],
        ]
    memory = "Memory-Usage(MB)" if kind == "310p" else "Memory-Usage(MB)  HBM-Usage(MB)"
    second = {"a3": "Chip  Phy-ID", "310p": "Chip    Device"}.get(kind, "Chip")
    return [["NPU   Name", "Health", top], [second, "Bus-Id", f"AICore(%)   {memory}"]]


def _rows(layout: str, number: int, device: Chip) -> list[list[str]]:
    kind = family(layout)
    power = "NA" if kind == "310p" else "-" if device.chip else "90.1"
    top = f"{power:<12}{34:<18}0    / 0"
    used = f"{'NA' if device.used is None else device.used:<5}/ {device.total}"
    bottom = f"{0:<12}{used}" if kind == "310p" else f"{0:<12}{'0    / 0':<18}{used}"
    if kind == "a5":
        return [[str(device.npu), device.name, device.health, top], ["", "", device.bus, bottom]]
    ids = f"{device.chip:<6}{number}" if kind in ("a3", "310p") else str(device.chip)
    return [[f"{device.npu:<6}{device.name}", device.health, top], [ids, device.bus, bottom]]


def _processes(layout: str, devices: list[Chip]) -> list[str]:
    widths, container = SHAPES[layout]
    total = sum(widths) + 2
    names = ["NPU ID" if family(layout) == "a5" else "NPU     Chip", "Process id", "Process name", "Process memory(MB)"]
    last = widths[2]
    columns = (*widths[:2], 20, 23, last - 45) if container else (*widths[:2], 26, last - 27)
    names += ["Process id in container"] if container else []
    lines = [_rule("-", widths), _line(names, columns), _rule("=", widths)]
    for npu in dict.fromkeys(device.npu for device in devices):
        rows = [
            [
                str(npu) if family(layout) == "a5" else f"{npu:<8}{device.chip}",
                *(str(pid), name, str(memory)),
                *([("NA" if inside is None else str(inside))] if container else []),
            ]
            for device in devices
            if device.npu == npu
            for pid, name, memory, inside in device.processes
        ]
        lines += [_line(row, columns) for row in rows] or [
            _line([f"No running processes found in NPU {npu}"], (total,))
        ]
        lines.append(_rule("=", widths))
    return lines


def id_map(devices: list[Chip], layout: str = "classic") -> str:
    """The text of ``npu-smi info -m``."""
    phy = family(layout) == "a3"
    heads = ["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if phy else []), "Chip Name"]
    rows = [heads]
    for number, device in enumerate(devices):
        ids = [device.npu, device.chip, number, *([number] if phy else [])]
        rows.append([*map(str, ids), f"Ascend {device.name}"])
    return "".join("\t" + " ".join(f"{cell:<30}" for cell in row) + "\n" for row in rows)

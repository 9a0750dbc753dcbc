"""The tables of plain ``npu-smi info``, in every known layout.

A row counts only when it ends with its pipe and all its cells can be read, and the process table only when every card
of the device table is accounted for and the last block is closed. So text that was cut proves no device free.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from .models import COMPLETE, MAYBE_TRUNCATED, MISSING, Device, Process
from .text import decimal, integer, is_gap, present

ROWS_PER_CHIP = 8  # npu-smi prints no more processes of one chip
_BUS_ID = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]", re.ASCII)
_PAIR = re.compile(r"(\d+|NA|-)\s*/\s*(\d+|NA|-)(?=\s|$)", re.ASCII)
_VERSION = re.compile(r"\|\s*npu-smi\s+(\S+)", re.ASCII)
_IDLE = re.compile(r"No running processes found(?: in NPU (\d+))?", re.ASCII)
_ALL = -1


class Row(NamedTuple):
    """A process as the table names its place; ``chip`` is None where the table has no such column."""

    npu: int
    chip: Optional[int]
    process: Process


class Table(NamedTuple):
    """One table. ``whole`` tells that nothing of it is missing or unreadable, as far as that can be seen."""

    layout: str
    driver: Optional[str]
    devices: List[Device]
    rows: List[Row]
    process_table: str
    whole: bool


class _Columns(NamedTuple):
    """What the heading of the device table says. ``pairs`` names the used/total columns of a second line."""

    layout: str
    second_id: Optional[str]
    pairs: List[str]


def is_heading(line: str) -> bool:
    """Tell whether a line begins the heading of a device table."""
    cells = cells_of(line)
    return cells is not None and len(cells) >= 3 and cells[0].startswith("NPU") and "Health" in cells


def cells_of(line: str) -> Optional[List[str]]:
    """Return the cells of a row, or None when it is no row or was cut."""
    line = line.strip()
    if len(line) < 2 or line[0] != "|" or line[-1] != "|":
        return None
    return [cell.strip() for cell in line[1:-1].split("|")]


def driver_in(line: str) -> Optional[str]:
    """Return the version in the first row of a table."""
    match = _VERSION.match(line.strip())
    return match.group(1) if match and cells_of(line) else None


def read_table(lines: List[str], driver: Optional[str]) -> Table:
    """Read one table. Shapes: ``lines`` are rows and rules only, beginning with the heading of the device table."""
    reader = _Reader(lines)
    return reader.table(driver)


class _Reader:
    """Goes through the lines of one table once; whatever does not fit makes it less than whole."""

    def __init__(self, lines: List[str]) -> None:
        self._columns = _columns(lines[0], lines[1] if len(lines) > 1 else "")
        self._lines = lines[2:]
        self._odd = self._columns is None
        self._top: Optional[List[str]] = None
        self._devices: List[Device] = []
        self._heading: Optional[List[str]] = None
        self._rows: List[Row] = []
        self._accounted: Set[int] = set()
        self._open = True

    def table(self, driver: Optional[str]) -> Table:
        for line in self._lines:
            self._take(line.strip())
        if self._top is not None:
            self._odd = True
        devices = [_with_processes(device, self._rows) for device in self._devices]
        state = self._state(devices)
        # Boards of the 310 family may print no process table; for all others its absence means that text is missing.
        layout = self._columns.layout if self._columns else "unknown"
        lacking = state == MISSING and not (layout == "310p" and self._heading is None and not self._open)
        return Table(layout, driver, devices, self._rows, state, not self._odd and not lacking)

    def _take(self, line: str) -> None:
        if line.startswith("+"):
            self._separator(line)
        elif is_gap(line):
            self._odd = True
        else:
            self._row(line)

    def _separator(self, line: str) -> None:
        self._odd = self._odd or self._top is not None
        self._top = None
        if line.endswith("+"):
            self._open = False

    def _row(self, line: str) -> None:
        self._open = True
        cells = cells_of(line)
        if cells is None:
            self._odd = True
        elif self._heading is None and cells[0].startswith("NPU") and "Process id" in cells:
            self._heading = cells
        elif self._heading is not None:
            self._process(cells)
        elif self._top is None:
            self._top = cells
        else:
            self._device(self._top, cells)
            self._top = None

    def _device(self, top: List[str], bottom: List[str]) -> None:
        device = _device(self._columns, top, bottom) if self._columns else None
        if device is None or any((known.npu, known.chip) == (device.npu, device.chip) for known in self._devices):
            self._odd = True
        else:
            self._devices.append(device)

    def _process(self, cells: List[str]) -> None:
        idle = _IDLE.fullmatch(cells[0]) if len(cells) == 1 else None
        if idle:
            self._accounted.add(int(idle.group(1)) if idle.group(1) else _ALL)
            return
        row = _process(self._heading or [], cells)
        if row is None:
            self._odd = True
        else:
            self._accounted.add(row.npu)
            self._rows.append(row)

    def _state(self, devices: List[Device]) -> str:
        cards = {device.npu for device in self._devices}
        places = {(device.npu, device.chip) for device in self._devices}
        strangers = any(row.chip is not None and (row.npu, row.chip) not in places for row in self._rows)
        accounted = self._accounted in (cards, {_ALL}) and not strangers
        if self._odd or self._open or self._heading is None or not accounted:
            return MISSING
        full = any(len(device.processes) >= ROWS_PER_CHIP for device in devices)
        return MAYBE_TRUNCATED if full else COMPLETE


def _columns(first: str, second: str) -> Optional[_Columns]:
    top, bottom = cells_of(first), cells_of(second)
    if top is None or bottom is None or len(top) != len(bottom):
        return None
    pairs = re.findall(r"(\w+)-Usage\(MB\)", bottom[-1])
    if not pairs:
        return None
    if top[0] == "NPU ID":
        return _Columns("a5", None, pairs)
    names = bottom[0].split()
    second_id = names[1] if len(names) > 1 else None
    layout = {"Phy-ID": "a3", "Device": "310p"}.get(second_id or "", "classic")
    return _Columns(layout, second_id, pairs)


def _device(columns: _Columns, top: List[str], bottom: List[str]) -> Optional[Device]:
    names = _names(columns, top, bottom)
    power = top[-1].split()
    pairs = _PAIR.findall(bottom[-1])
    usage = bottom[-1].split()
    if names is None or len(power) < 2 or len(pairs) != len(columns.pairs):
        return None
    npu, chip, second, name = names
    used, total = _memory(columns, pairs)
    temperature = decimal(power[1])
    return Device(
        npu=npu,
        chip=chip,
        logic=second if columns.second_id == "Device" else None,
        phy=second if columns.second_id == "Phy-ID" else None,
        name=name,
        health=present(top[-2]),
        power_w=decimal(power[0]),
        temp_c=None if temperature is None else int(temperature),
        bus_id=bottom[-2] if _BUS_ID.fullmatch(bottom[-2]) else None,
        util_pct=integer(usage[0]),
        hbm_used_mb=used,
        hbm_total_mb=total,
    )


def _names(columns: _Columns, top: List[str], bottom: List[str]) -> Optional[Tuple[int, int, Optional[int], str]]:
    """Return NPU id, chip id, the number beside the chip id, and the name; None for rows of another shape."""
    if columns.layout == "a5":
        npu = integer(top[0])
        if len(top) != 4 or len(bottom) != 4 or npu is None or bottom[0] or bottom[1]:
            return None
        return npu, 0, None, top[1]
    words, ids = top[0].split(None, 1), bottom[0].split()
    if len(top) != 3 or len(bottom) != 3 or len(words) != 2 or not 1 <= len(ids) <= (2 if columns.second_id else 1):
        return None
    npu, chip = integer(words[0]), integer(ids[0])
    if npu is None or chip is None:
        return None
    return npu, chip, integer(ids[1]) if len(ids) > 1 else None, words[1].strip()


def _memory(columns: _Columns, pairs: List[Tuple[str, str]]) -> Tuple[Optional[int], Optional[int]]:
    by_name: Dict[str, Tuple[str, str]] = dict(zip(columns.pairs, pairs))
    used, total = by_name.get("HBM", pairs[0])
    return integer(used), integer(total)


def _process(heading: List[str], cells: List[str]) -> Optional[Row]:
    """Return a process row. A name may hold pipes, so the cells after it are counted from the end."""
    tail = len(heading) - 3
    if tail < 1 or len(cells) < len(heading):
        return None
    place, pid = cells[0].split(), integer(cells[1])
    npu = integer(place[0]) if place else None
    chip = integer(place[1]) if len(place) > 1 else None
    if npu is None or pid is None or len(place) > 2 or (len(place) == 2) != (chip is not None):
        return None
    name = "|".join(cells[2:-tail]).strip()
    container = integer(cells[-1]) if "container" in heading[-1] else None
    return Row(npu, chip, Process(pid, name or None, integer(cells[-tail]), container))


def _with_processes(device: Device, rows: List[Row]) -> Device:
    # A row without a chip may belong to any chip of its card.
    mine = [row.process for row in rows if row.npu == device.npu and row.chip in (None, device.chip)]
    return device._replace(processes=mine)

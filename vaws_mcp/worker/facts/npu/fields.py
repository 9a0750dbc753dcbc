"""The ``Name : value`` answers of ``npu-smi info -l`` and ``-t``, and the columns of ``-m``."""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Tuple

from .models import Health, MapRow, Process, Usage
from .text import integer, present

_FIELD = re.compile(r"([A-Za-z][^:]{0,60}?)\s*: ?(.*)")
_PROCESS = re.compile(r"Process id:(\d+)\s+Process name:(.*?)\s*Process memory\(MB\):(\d+)", re.ASCII)
_CODE = re.compile(r"(?:0[xX])?[0-9A-Fa-f]{2,16}", re.ASCII)
_NOT_CHIPS = frozenset(("mcu", "3559"))
_WORST = ("OK", "Warning", "Alarm", "Critical")

Fields = List[Tuple[str, str]]
Chip = Optional[int]


class Blocks(NamedTuple):
    """An answer of ``-t``: what it says of the card, and the lines of each chip.

    ``expected`` is the number of chips that it announces; the chip is None where its line is missing.
    """

    npu: Optional[int]
    expected: Optional[int]
    chips: List[Tuple[Chip, List[str]]]

    @property
    def whole(self) -> bool:
        """Whether there is a closed block for each chip that was announced."""
        numbered = [chip for chip, _lines in self.chips if chip is not None]
        return bool(self.chips) and (self.expected is None or len(numbered) >= self.expected)


def fields_of(lines: List[str]) -> Fields:
    """Return names and values of all lines that have both."""
    matches = (_FIELD.fullmatch(line.strip()) for line in lines)
    return [(match.group(1), match.group(2).strip()) for match in matches if match]


def blocks_of(lines: List[str]) -> Blocks:
    """Split an answer into its chips. ``Chip ID`` closes a block; on the 310 family it stands before it."""
    npu = expected = None
    chips: List[Tuple[Chip, List[str]]] = []
    lines_now: List[str] = []
    opened: Chip = None
    for line in lines:
        name, value = (fields_of([line]) or [("", "")])[0]
        if name == "NPU ID":
            npu = integer(value)
        elif name == "Chip Count":
            expected = integer(value)
        elif name != "Chip ID":
            lines_now += [line] if line.strip() else []
        elif lines_now and opened is None:
            chips.append((integer(value), lines_now))
            lines_now = []
        else:
            chips += [(opened, lines_now)] if opened is not None else []
            opened, lines_now = integer(value), []
    if lines_now or opened is not None:
        chips.append((opened, lines_now))
    return Blocks(npu, expected, chips)


def health_of(lines: List[str]) -> Health:
    """Read one block of ``-t health``."""
    found = dict(fields_of(lines))
    status = found.get("Health Status", found.get("Health", ""))
    codes = re.split(r"[\s,;]+", found.get("Error Code", ""))
    return Health(present(status), [code for code in codes if _CODE.fullmatch(code)])


def worst(parts: List[Health]) -> Health:
    """Return the worst status of several chips, with all their error codes; one unknown makes all unknown."""
    states = [part.health for part in parts]
    codes = list(dict.fromkeys(code for part in parts for code in part.error_codes))
    bad = [state for state in states if state not in _WORST]
    if bad or not states:
        return Health(bad[0] if bad else None, codes)
    return Health(max(states, key=lambda state: _WORST.index(state or "")), codes)


def usage_of(lines: List[str]) -> Usage:
    """Read one block of ``-t usages`` or ``-t memory``; a figure that is not printed is None."""
    found = {name: integer(value) for name, value in fields_of(lines)}
    return Usage(
        hbm_total_mb=found.get("HBM Capacity(MB)"),
        hbm_pct=found.get("HBM Usage Rate(%)"),
        aicore_pct=found.get("Aicore Usage Rate(%)"),
        npu_util_pct=found.get("NPU Utilization(%)"),
    )


def processes_of(lines: List[str]) -> List[Process]:
    """Read one block of ``-t proc-mem``."""
    matches = (_PROCESS.fullmatch(line.strip()) for line in lines)
    return [Process(int(m.group(1)), m.group(2).strip() or None, int(m.group(3))) for m in matches if m]


def cards_of(lines: List[str]) -> Tuple[Optional[int], List[Tuple[int, Optional[int]]]]:
    """Read ``-l``: the stated number of cards, and NPU id and number of chips of each."""
    total: Optional[int] = None
    cards: List[Tuple[int, Optional[int]]] = []
    for name, value in fields_of(lines):
        number = integer(value)
        if name in ("Total Count", "Card Count"):
            total = number
        elif name == "NPU ID" and number is not None:
            cards.append((number, None))
        elif name == "Chip Count" and cards and cards[-1][1] is None:
            cards[-1] = (cards[-1][0], number)
    return total, cards


def is_map_heading(line: str) -> bool:
    """Tell whether a line is the heading of ``-m``."""
    columns = _columns(line)
    return columns[:1] == ["NPU ID"] and "Chip ID" in columns and columns[-1] == "Chip Name"


def map_of(lines: List[str]) -> List[MapRow]:
    """Read ``-m``. Shapes: ``lines`` begins with its heading. Rows of other parts than NPU chips are left out."""
    columns = _columns(lines[0])
    rows: List[MapRow] = []
    for line in lines[1:]:
        cells = line.split(None, len(columns) - 1)
        if len(cells) != len(columns):
            continue
        row = _map_row(dict(zip(columns, (cell.strip() for cell in cells))))
        if row is not None and row not in rows:
            rows.append(row)
    return rows


def _columns(line: str) -> List[str]:
    return re.split(r"\s{2,}|\t", line.strip())


def _map_row(cell: Dict[str, str]) -> Optional[MapRow]:
    numbers = {name: integer(value) for name, value in cell.items() if name != "Chip Name"}
    npu = numbers.get("NPU ID")
    if npu is None or None in numbers.values() or cell["Chip Name"].lower() in _NOT_CHIPS:
        return None
    return MapRow(
        npu=npu,
        chip=numbers.get("Chip ID"),
        logic=numbers.get("Chip Logic ID"),
        phy=numbers.get("Chip Phy-ID"),
        name=cell["Chip Name"],
        slot=numbers.get("Slot ID"),
    )

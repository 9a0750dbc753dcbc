"""Plain ``npu-smi info``: one table or several, with a verdict for each device."""

from __future__ import annotations

from typing import List, Optional

from .failures import Trouble, find
from .models import FREE, MISSING, UNKNOWN, Device, Judged
from .occupancy import judge
from .report import Report, unlike
from .table import Table, driver_in, is_heading, read_table
from .text import is_gap


def read_info(lines: List[str]) -> Report:
    """Read the output of plain ``npu-smi info``."""
    tables = _tables(lines)
    trouble = find([line for line in lines if not line.lstrip().startswith(("|", "+"))])
    if not tables:
        cut = any(driver_in(line) for line in lines)
        cause = Trouble("truncated", "the text ends before the device table") if cut else unlike("info")
        return Report("info", trouble or cause)
    last = tables[-1]
    whole = all(table.whole for table in tables) and not any(is_gap(line) for line in lines)
    state = last.process_table if whole else MISSING
    if not whole:
        trouble = trouble or Trouble("truncated", "the text is not whole, so no device is known to be free")
    elif not last.devices:
        trouble = trouble or Trouble("no_npu", "npu-smi lists no device")
    warnings = [line.strip() for line in lines if line.lstrip().startswith("[WARNING]")]
    if len(tables) > 1:
        warnings.append(f"The text holds {len(tables)} tables: the last is shown, and free is what is free in each.")
    judged = [_verdict(device, tables, state) for device in last.devices]
    if trouble is not None:
        judged = [
            verdict if verdict.occupancy != FREE else Judged(UNKNOWN, f"The probe failed: {trouble.message}.")
            for verdict in judged
        ]
    return Report("info", trouble, last.layout, last.driver, state, last.devices, judged, last.rows, warnings=warnings)


def _tables(lines: List[str]) -> List[Table]:
    starts = [number for number, line in enumerate(lines) if is_heading(line)]
    tables: List[Table] = []
    driver: Optional[str] = None
    for number, start in enumerate(starts):
        before = lines[starts[number - 1] if number else 0 : start]
        driver = next((found for found in map(driver_in, reversed(before)) if found), driver)
        end = starts[number + 1] if number + 1 < len(starts) else len(lines)
        mine = [line for line in lines[start:end] if line.lstrip().startswith(("|", "+"))]
        # The first row of the next table is not part of this one.
        cut = next((at for at, line in enumerate(mine) if driver_in(line)), len(mine))
        tables.append(read_table(mine[:cut], driver))
        if cut < len(mine) and end == len(lines):
            tables[-1] = tables[-1]._replace(whole=False)
    return tables


def _verdict(device: Device, tables: List[Table], state: str) -> Judged:
    """Judge a device by every table: by the last, unless another shows that it is not free."""
    verdict = judge(device, tables[-1].layout, state)
    if verdict.occupancy != FREE:
        return verdict
    twins = [known for known in tables[-1].devices if known.key == device.key]
    if len(twins) > 1:
        return Judged(UNKNOWN, f"Several devices are called {device.key}.")
    for table in tables[:-1]:
        same = [known for known in table.devices if (known.npu, known.chip) == (device.npu, device.chip)]
        if not same:
            return Judged(UNKNOWN, "Not every table of the text has it.")
        earlier = judge(same[0], table.layout, table.process_table)
        if earlier.occupancy != FREE:
            return earlier
    return verdict

"""From the text of any ``npu-smi info`` command to a report: which command it was is seen from the text."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from . import fields
from .failures import Trouble, find
from .fields import Blocks
from .info import read_info
from .report import Report, process_json, unlike
from .table import driver_in, is_heading
from .text import is_gap, lines_of

KINDS = ("info", "map", "list", "health", "usages", "proc-mem", "memory")
_SAID_BY_FIELD = {
    "Total Count": "list",
    "Card Count": "list",
    "Process id": "proc-mem",
    "Health": "health",
    "Health Status": "health",
    "HBM Clock Speed(MHz)": "memory",
    "DDR Clock Speed(MHz)": "memory",
    "HBM Manufacturer ID": "memory",
    "HBM Temperature(C)": "memory",
}


def parse(text: str, kind: Optional[str] = None) -> Report:
    """Read what npu-smi printed; ``kind`` is one of KINDS, or None to see it from the text. Never raises for a text."""
    lines = lines_of(text)
    shown = _kinds_in(lines)
    known = kind or next(iter(shown), None)
    if known == "info":
        return read_info(lines)
    if known == "map":
        return _map(lines)
    if known is not None and known not in shown:
        return Report(known, find(lines) or unlike(known))
    if known == "list":
        return _list(lines)
    if known in _READERS:
        return _blocks(known, lines)
    trouble = find(lines)
    if trouble is None:
        empty = not text.strip()
        trouble = (
            Trouble("empty", "there is no text") if empty else Trouble("unrecognised", "this is no output of npu-smi")
        )
    return Report(None, trouble)


def _kinds_in(lines: List[str]) -> List[str]:
    """Return the kinds that the lines show, the surest first."""
    if any(driver_in(line) or is_heading(line) for line in lines):
        return ["info"]
    found: List[str] = []
    if any(fields.is_map_heading(line) or "no npu card" in line.lower() for line in lines):
        found.append("map")
    for name, _value in fields.fields_of(lines):
        if name in _SAID_BY_FIELD:
            found.append(_SAID_BY_FIELD[name])
        elif "Usage Rate(%)" in name or name == "NPU Utilization(%)":
            found.append("usages")
    if any("No process in device" in line for line in lines):
        found.append("proc-mem")
    if any('query "usages"' in line for line in lines):
        found.append("usages")
    return found


def _map(lines: List[str]) -> Report:
    start = next((number for number, line in enumerate(lines) if fields.is_map_heading(line)), None)
    trouble = find(lines)
    if start is None:
        return Report("map", trouble or unlike("map"), map=[])
    rows = fields.map_of(lines[start:])
    if any(is_gap(line) for line in lines):
        trouble = trouble or Trouble("truncated", "lines of the text were left out")
    elif not rows:
        trouble = trouble or Trouble("truncated", "the map has no rows")
    return Report("map", trouble, map=rows)


def _list(lines: List[str]) -> Report:
    total, cards = fields.cards_of(lines)
    facts: Dict[str, Any] = {"total": total, "npus": [{"npu": npu, "chips": chips} for npu, chips in cards]}
    whole = total is not None and len(cards) == total and all(chips is not None for _npu, chips in cards)
    return Report("list", find(lines) or _cut(whole, lines), facts=facts)


def _blocks(kind: str, lines: List[str]) -> Report:
    blocks = fields.blocks_of(lines)
    facts = _READERS[kind](blocks)
    whole = blocks.whole and not (kind == "health" and facts["health"] is None)
    return Report(kind, find(lines) or _cut(whole, lines), facts=facts)


def _cut(whole: bool, lines: List[str]) -> Optional[Trouble]:
    return None if whole and not any(is_gap(line) for line in lines) else Trouble("truncated", "the text is not whole")


def _health(blocks: Blocks) -> Dict[str, Any]:
    parts = {_chip_key(chip): fields.health_of(lines) for chip, lines in blocks.chips}
    overall = fields.worst(list(parts.values()))
    chips = {chip: dict(part._asdict()) for chip, part in parts.items()}
    return {"npu": blocks.npu, "health": overall.health, "error_codes": overall.error_codes, "chips": chips}


def _usages(blocks: Blocks) -> Dict[str, Any]:
    chips = {_chip_key(chip): dict(fields.usage_of(lines)._asdict()) for chip, lines in blocks.chips}
    return {"npu": blocks.npu, "chips": chips}


def _memory(blocks: Blocks) -> Dict[str, Any]:
    totals = {_chip_key(chip): fields.usage_of(lines).hbm_total_mb for chip, lines in blocks.chips}
    chips = {chip: {"hbm_total_mb": total} for chip, total in totals.items()}
    return {"npu": blocks.npu, "hbm_total_mb": next(iter(totals.values()), None), "chips": chips}


def _proc_mem(blocks: Blocks) -> Dict[str, Any]:
    chips = {
        _chip_key(chip): [process_json(process) for process in fields.processes_of(lines)]
        for chip, lines in blocks.chips
    }
    return {"npu": blocks.npu, "chips": chips}


_READERS: Dict[str, Callable[[Blocks], Dict[str, Any]]] = {
    "health": _health,
    "usages": _usages,
    "memory": _memory,
    "proc-mem": _proc_mem,
}


def _chip_key(chip: Optional[int]) -> str:
    return "unknown" if chip is None else str(chip)

"""What a text of npu-smi says, and its JSON form."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from .failures import Trouble
from .models import MAYBE_TRUNCATED, MISSING, Device, Judged, MapRow, Process
from .table import Row


class Report(NamedTuple):
    """What a text says. ``error`` is set when it is a failure, or not whole; then no device is free.

    Shapes: ``judged`` has one entry for each of ``devices``; ``facts`` are the fields of the kinds other than
    ``info`` and ``map``, as in the JSON form.
    """

    kind: Optional[str]
    error: Optional[Trouble] = None
    layout: Optional[str] = None
    driver: Optional[str] = None
    process_table: str = MISSING
    devices: List[Device] = []  # noqa: RUF012 - never changed in place
    judged: List[Judged] = []  # noqa: RUF012 - never changed in place
    rows: List[Row] = []  # noqa: RUF012 - never changed in place
    map: Optional[List[MapRow]] = None
    facts: Dict[str, Any] = {}  # noqa: RUF012 - never changed in place
    warnings: List[str] = []  # noqa: RUF012 - never changed in place

    def as_json(self) -> Dict[str, Any]:
        """Return the JSON form: only the fields that the kind of text has, and ``error`` as its code."""
        found: Dict[str, Any] = {"kind": self.kind, "error": None, **self.facts}
        if self.error is not None:
            found.update(error=self.error.code, exit_code=self.error.exit_code)
        if self.map is not None:
            found["map"] = [_map_json(row) for row in self.map]
        if self.kind == "info":
            found.update(layout=self.layout, driver=self.driver, process_table=self.process_table)
            found["devices"] = [_device_json(*pair) for pair in zip(self.devices, self.judged)]
            found["processes"] = [_row_json(row) for row in self.rows]
            found["maybe_truncated"] = self.process_table == MAYBE_TRUNCATED
        return found


def unlike(kind: str) -> Trouble:
    """Return the failure of a text that is not of the kind it was said to be."""
    return Trouble("unrecognised", f"this is no output of the kind {kind}")


def process_json(process: Process) -> Dict[str, Any]:
    """Return pid, name and memory of a process."""
    return {"pid": process.pid, "name": process.name, "mem_mb": process.memory_mb}


def _row_json(row: Row) -> Dict[str, Any]:
    place = {"npu": row.npu, "chip": row.chip}
    return {**place, **process_json(row.process), "container_pid": row.process.container_pid}


def _device_json(device: Device, verdict: Judged) -> Dict[str, Any]:
    return {**device.as_json(), "occupancy": verdict.occupancy, "reason": verdict.reason}


def _map_json(row: MapRow) -> Dict[str, Any]:
    found: Dict[str, Any] = dict(row._asdict())
    if row.slot is None:
        del found["slot"]
    return found

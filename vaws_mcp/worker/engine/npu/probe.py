"""Which devices this machine has and which of them are free, asked of ``npu-smi`` within a bound of time."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from ...facts.npu.failures import Trouble
from ...facts.npu.models import FREE, MISSING, UNKNOWN, Device, Judged, MapRow, Process
from ...facts.npu.parse import parse
from ...facts.npu.report import Report
from ...facts.npu.table import ROWS_PER_CHIP
from ...refusal import Refusal
from ...request import Answer, Request
from .. import environment
from .holders import Holder, listed
from .tool import Check, Tool

BOUND_S = 30.0
_maps: Dict[Tuple[str, FrozenSet[Tuple[int, Optional[int]]]], List[MapRow]] = {}


class Seen(NamedTuple):
    """A device with its verdict. ``occupancy`` is free, occupied, unhealthy or unknown; ``reason`` is one sentence."""

    device: Device
    occupancy: str
    reason: str
    holders: List[Holder] = []  # noqa: RUF012 - never changed in place

    @property
    def key(self) -> str:
        """The name of the device for leases: its bus id, or ``npu<id>c<chip>`` where none is printed."""
        return self.device.key

    @property
    def logic(self) -> Optional[int]:
        """Its number in ASCEND_RT_VISIBLE_DEVICES; None where npu-smi does not print it."""
        return self.device.logic

    @property
    def free(self) -> bool:
        """Whether it may be given away."""
        return self.occupancy == FREE

    def as_json(self) -> Dict[str, Any]:
        """Return the fields of the device, ``lease_name`` (its key), ``occupancy``, ``reason`` and ``holders``."""
        found = self.device.as_json()
        found.update(
            lease_name=self.key,
            occupancy=self.occupancy,
            reason=self.reason,
            holders=[dict(holder._asdict()) for holder in self.holders],
        )
        return found


class Snapshot(NamedTuple):
    """The devices at one moment. Not ``ok`` means that no device is free; ``error`` then says why.

    Shapes: ``error`` is ``{code, message, hint}``; ``process_table`` is complete, maybe_truncated or missing.
    """

    ok: bool
    error: Optional[Dict[str, Any]] = None
    layout: Optional[str] = None
    driver: Optional[str] = None
    process_table: str = MISSING
    devices: List[Seen] = []  # noqa: RUF012 - never changed in place
    warnings: List[str] = []  # noqa: RUF012 - never changed in place

    def as_json(self) -> Dict[str, Any]:
        """Return the JSON form."""
        found: Dict[str, Any] = dict(self._asdict())
        found["devices"] = [seen.as_json() for seen in self.devices]
        return found


def probe(request: Request) -> Answer:
    """Answer with the snapshot of the devices, taken in the environment that ``env_spec`` describes."""
    warnings: List[str] = []
    try:
        env, _source = environment.prepare(request.params.mapping("env_spec"), request.check)
    except Refusal as refusal:
        request.check()
        env = environment.base_environment()
        warnings.append(f"Probed without the environment files: {refusal.message}.")
    taken = snapshot(env, request.params.seconds("bound_s", BOUND_S), request.check)
    return taken._replace(warnings=[*warnings, *taken.warnings]).as_json(), b""


def snapshot(env: Dict[str, str], bound_s: float = BOUND_S, check: Check = lambda: None) -> Snapshot:
    """Probe the devices with ``npu-smi`` from ``env``'s PATH or its usual places.

    A failed probe is a snapshot that is not ``ok``. A hung npu-smi is killed at the bound, which takes up to 2.5 s
    more. ``check`` is called all the while; what it raises ends the probe.
    """
    tool = Tool(env, bound_s, check)
    said = tool.run()
    report = parse(said.text, "info" if said.text else None)
    trouble = said.trouble or report.error
    warnings = list(report.warnings)
    if trouble is None:
        rows = _map(tool, report, warnings)
        devices = _numbered(report.devices, rows, warnings)
        devices = [_all_processes(tool, device, warnings) for device in devices]
    else:
        devices = report.devices
    seen = [_seen(device, verdict, trouble) for device, verdict in zip(devices, report.judged)]
    if any(holder.local_pid is None for one in seen for holder in one.holders):
        warnings.append("npu-smi prints pids of the host; some holders cannot be resolved from this container.")
    return Snapshot(
        ok=trouble is None,
        error=None if trouble is None else _error(trouble),
        layout=report.layout,
        driver=report.driver,
        process_table=report.process_table if trouble is None else MISSING,
        devices=seen,
        warnings=warnings,
    )


def health_of(seen: List[Seen], env: Dict[str, str], bound_s: float = BOUND_S) -> Dict[str, Dict[str, Any]]:
    """Return by key ``{health, error_codes, ok, source}`` of these devices, for the check before a formal run.

    ``source`` is ``query`` for the answer of ``-t health``, or ``table`` for the column of the table where the query
    fails; ``error_codes`` is None then.
    """
    tool = Tool(env, bound_s, lambda: None)
    cards: Dict[int, Report] = {}
    found: Dict[str, Dict[str, Any]] = {}
    for one in seen:
        device = one.device
        if device.npu not in cards:
            said = tool.run("-t", "health", "-i", str(device.npu))
            cards[device.npu] = Report(None, said.trouble) if said.trouble else parse(said.text, "health")
        report = cards[device.npu]
        part = report.facts.get("chips", {}).get(str(device.chip or 0))
        if report.error is not None or part is None or part["health"] is None:
            part = {"health": device.health, "error_codes": None, "source": "table"}
        found[one.key] = {"source": "query", **part, "ok": part["health"] == "OK"}
    return found


def _error(trouble: Trouble) -> Dict[str, Any]:
    return {"code": trouble.code, "message": trouble.message, "hint": trouble.hint}


def _seen(device: Device, verdict: Judged, trouble: Optional[Trouble]) -> Seen:
    if verdict.occupancy == FREE and trouble is not None:
        verdict = Judged(UNKNOWN, f"The probe failed: {trouble.message}.")
    return Seen(device, verdict.occupancy, verdict.reason, listed(device.processes))


def _map(tool: Tool, report: Report, warnings: List[str]) -> List[MapRow]:
    """Return ``-m``, which changes only with the hardware, so that one process asks for it once."""
    key = (tool.path or "", frozenset((device.npu, device.chip) for device in report.devices))
    if key not in _maps:
        said = tool.run("-m")
        mapped = parse(said.text, "map")
        trouble = said.trouble or mapped.error
        if trouble is not None:
            warnings.append(f"The logic ids are not known, because npu-smi info -m failed: {trouble.message}.")
            return []
        _maps[key] = mapped.map or []
    return _maps[key]


def _numbered(devices: List[Device], rows: List[MapRow], warnings: List[str]) -> List[Device]:
    """Give the devices their logic and physical ids; a number that two of them claim is none."""
    by_place = {(row.npu, row.chip): row for row in rows}
    found: List[Device] = []
    for device in devices:
        row = by_place.get((device.npu, device.chip), MapRow(device.npu))
        logic = device.logic if row.logic is None else row.logic
        phy = device.phy if row.phy is None else row.phy
        found.append(device._replace(logic=logic, phy=phy))
    numbers = [device.logic for device in found]
    if rows and None in numbers:
        warnings.append("npu-smi info -m gives no logic id for some devices, so they cannot be chosen by number.")
    for number in {number for number in numbers if number is not None and numbers.count(number) > 1}:
        warnings.append(f"npu-smi gives the logic id {number} to several devices; it is used for none of them.")
        found = [device._replace(logic=None) if device.logic == number else device for device in found]
    return found


def _all_processes(tool: Tool, device: Device, warnings: List[str]) -> Device:
    """Add the processes that the table has no room for."""
    if len(device.processes) < ROWS_PER_CHIP:
        return device
    chip = device.chip or 0
    said = tool.run("-t", "proc-mem", "-i", str(device.npu), "-c", str(chip))
    report = parse(said.text, "proc-mem")
    if said.trouble or report.error:
        warnings.append(f"The process list of {device.key} may be cut after {ROWS_PER_CHIP}.")
        return device
    known = {process.pid for process in device.processes}
    rows = [row for block in report.facts["chips"].values() for row in block if row["pid"] not in known]
    more = [Process(row["pid"], row["name"], row["mem_mb"]) for row in rows]
    return device._replace(processes=[*device.processes, *more])

"""From a snapshot or a report to the fields of the answer."""

from typing import Any

from vaws_mcp.npu.models import DeviceView
from vaws_mcp.worker.facts.npu.report import Report

Fields = dict[str, Any]


def of_snapshot(snapshot: Fields) -> Fields:
    """Return the fields for the worker's snapshot, with the map from logic ids."""
    devices = snapshot["devices"]
    fields: Fields = {"kind": "info", **{name: snapshot[name] for name in ("layout", "driver", "process_table")}}
    fields["maybe_truncated"] = snapshot["process_table"] == "maybe_truncated"
    fields["map"] = [
        {name: device[name] for name in ("logic", "npu", "chip", "phy", "bus_id", "name")} for device in devices
    ]
    return fields | grouped(devices)


def of_report(report: Report) -> Fields:
    """Return the fields for saved text."""
    fields = {name: value for name, value in report.as_json().items() if name not in ("error", "devices")}
    if report.kind != "info":
        return fields
    pairs = zip(report.devices, report.as_json()["devices"], strict=True)
    return fields | grouped([{**view, "lease_name": device.key, "holders": _holders(device)} for device, view in pairs])


def _holders(device: Any) -> list[Fields]:
    return [{"pid": one.pid, "name": one.name, "memory_mb": one.memory_mb} for one in device.processes]


def grouped(devices: list[Fields]) -> Fields:
    """Return all devices, and by what they are good for."""
    return {
        "devices": devices,
        "free": [_brief(device) for device in devices if device["occupancy"] == "free"],
        "busy": [_brief(device, "reason", "holders") for device in devices if device["occupancy"] == "occupied"],
        "unhealthy": [_brief(device, "health", "reason") for device in devices if device["health"] not in (None, "OK")],
        "unknown": [_brief(device, "reason") for device in devices if device["occupancy"] == "unknown"],
    }


def _brief(device: Fields, *more: str) -> Fields:
    return {name: device[name] for name in ("logic", "npu", "chip", "lease_name", *more)}


def views(fields: Fields) -> Fields:
    """Return the fields with the devices in their model."""
    devices = fields.get("devices")
    return fields if devices is None else fields | {"devices": [DeviceView(**device) for device in devices]}


def said(where: str, fields: Fields) -> str:
    """Return what the answer says, in one sentence."""
    kind = fields["kind"]
    if kind == "info":
        free = fields["free"]
        names = ", ".join(_called(device) for device in free)
        listed = f" ({names})" if free else ""
        counts = f"{len(free)} free{listed}, {len(fields['busy'])} busy, {len(fields['unhealthy'])} unhealthy"
        return f"{where}: {len(fields['devices'])} devices: {counts}, {len(fields['unknown'])} unknown"
    if kind == "health":
        return f"{where}: health {fields['health']}, error codes: {', '.join(fields['error_codes']) or 'none'}"
    counted = {"map": "map", "list": "npus"}.get(kind, "chips")
    return f"{where}: npu-smi {kind} of {len(fields[counted])} {'chips' if counted != 'npus' else 'cards'}"


def _called(device: Fields) -> str:
    return str(device["lease_name"] if device["logic"] is None else device["logic"])


def for_people(answer: Fields) -> Fields:
    """Return an answer with one short row for each device, which says what the lists by occupancy say."""
    left_out = ("free", "busy", "unhealthy", "unknown", "map", "processes", "maybe_truncated")
    kept = {name: value for name, value in answer.items() if name not in left_out}
    rows = [_row(device) for device in answer["devices"]]
    empty = [name for name in rows[0] if all(row[name] is None for row in rows)]
    return kept | {"devices": [{name: value for name, value in row.items() if name not in empty} for row in rows]}


def _row(device: Fields) -> Fields:
    names = ("logic", "npu", "chip", "bus_id", "name", "health")
    holders = "; ".join(_named(holder) for holder in device.get("holders", ()))
    why = holders or (device["reason"] if device["occupancy"] != "free" else None)
    shown = {name: device[name] for name in names}
    return shown | {"used_mb": device["hbm_used_mb"], "state": device["occupancy"], "why": why}


def _named(holder: Fields) -> str:
    known = (holder.get(name) for name in ("pid", "name", "user", "container", "execution_id"))
    return " ".join(str(value) for value in known if value is not None)

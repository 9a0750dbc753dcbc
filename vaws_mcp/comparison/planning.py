"""What a comparison would do, and for how long, as far as earlier runs of the task tell."""

from typing import Any

from vaws_mcp.bench.service import wanted_devices
from vaws_mcp.comparison.asked import Asked, pinned
from vaws_mcp.comparison.records import LaunchRecord, load_launches
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.runs.records import all_runs

STOP_S = 5.0


async def plan_of(ctx: Context, asked: Asked) -> dict[str, Any]:
    """Return states at their commits, launches in order, devices and estimated minutes. Nothing is started.

    Shapes: states [label, ref, sha, …]; launches [number, round, label]; estimated_minutes null when nobody knows.
    """
    fixed = await pinned(ctx, asked)
    devices = wanted_devices(asked.settings, asked.found)
    launches = asked.launches
    known = newest_launch(asked)
    minutes = None
    if known is not None:
        whole = _seconds(known, asked.settings.runs) * len(asked.cases())
        minutes = round(len(launches) * (float(known.launch["ready_s"]) + whole + STOP_S) / 60, 1)
    return {
        "states": [state.model_dump(mode="json", exclude_none=True) for state in fixed.states],
        "vllm": fixed.vllm.facts() if fixed.vllm else None,
        "cases": [case.name for case in asked.cases()],
        "launches": [planned._asdict() for planned in launches],
        "iterations": asked.settings.runs,
        "devices": devices.as_json() if devices else "none",
        "estimated_minutes": minutes,
        "estimated_from": known.run_id if known else "no launch of this model in this task",
    }


def _seconds(record: LaunchRecord, runs: int) -> float:
    took = [float(run.get("client_s") or 0.0) for run in record.per_run]
    return sum(took) / len(took) * runs


def newest_launch(asked: Asked) -> LaunchRecord | None:
    """Return the newest launch of the same model in the task that tells how long it took."""
    for run in sorted(all_runs(asked.task.directory), key=lambda run: run.run_id, reverse=True):
        try:
            found = [record for record in load_launches(run.path) if record.status == "ok" and record.per_run]
            if found and _model(found[-1]) == asked.request.model:
                return found[-1]
        except (Failure, OSError):
            continue
    return None


def _model(record: LaunchRecord) -> str | None:
    command = list(record.launch.get("command") or [])
    return command[command.index("serve") + 1] if "serve" in command[:-1] else None

"""The launches of one state as one result."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vaws_mcp.comparison.records import LaunchRecord
from vaws_mcp.core.files import write_atomic
from vaws_mcp.numeric.summary import aggregate
from vaws_mcp.store.records import dump_json


def aggregated(launches: Sequence[LaunchRecord]) -> dict[str, Any]:
    """Return count, and per metric mean, stddev (null below two values) and values, over counted iterations."""
    counted = [found for record in launches for found in record.counted]
    summary = {name: found.model_dump(mode="json") for name, found in aggregate(counted).items()}
    return {"count": len(counted), **summary}


def means(launches: Sequence[LaunchRecord]) -> dict[str, float | None]:
    """Return the mean of each metric over the counted iterations; null when it was never measured."""
    counted = [found for record in launches for found in record.counted]
    found = aggregate(counted)
    return {name: found[name].mean for name in dict.fromkeys(name for run in counted for name in run)}


def of_case(launches: Sequence[LaunchRecord], case: str) -> list[LaunchRecord]:
    """Return the launches of one case."""
    return [record for record in launches if record.case == case]


def by_state(launches: Sequence[LaunchRecord]) -> list[tuple[str, str, list[LaunchRecord]]]:
    """Return state, case and their launches, in order."""
    keys = dict.fromkeys((record.label, record.case) for record in launches)
    return [(label, case, [one for one in launches if (one.label, one.case) == (label, case)]) for label, case in keys]


def state_result(launches: Sequence[LaunchRecord]) -> dict[str, Any]:
    """Return what a result says about a state: its commit, its launches, and per case the iterations of all of them.

    ``launch``, ``per_run`` and ``aggregated`` at the top are those of the first case.
    """
    first = launches[0]
    cases = list(dict.fromkeys(record.case for record in launches))
    whole = {case: _of_case(of_case(launches, case)) for case in cases}
    return {
        "label": first.label,
        "status": next((record.status for record in launches if record.status != "ok"), "ok"),
        **first.state.facts(),
        **_native_flags(launches),
        "launch": first.launch,
        **whole[first.case],
        "cases": {} if len(cases) == 1 else whole,
        "launches": [_summary(record) for record in launches],
    }


def _native_flags(launches: Sequence[LaunchRecord]) -> dict[str, bool]:
    """Return what is said of a state that was measured although the native gate did not let it pass."""
    names = {"changed": "native_input_changed", "unverified": "native_input_unverified"}
    seen = [record.native or {} for record in launches]
    return {name: True for key, name in names.items() if any(native.get(key) for native in seen)}


def _of_case(launches: Sequence[LaunchRecord]) -> dict[str, Any]:
    several = len(launches) > 1
    runs = [{**({"launch": record.number} if several else {}), **run} for record in launches for run in record.per_run]
    return {"per_run": runs, "aggregated": aggregated(launches)}


def _summary(record: LaunchRecord) -> dict[str, Any]:
    kept = {"number", "round", "case", "status", "error", "started_at", "ended_at", "contaminated", "contamination"}
    kept |= {"accuracy_probe", "native", "caches", "patch_sha256", "run_id"}
    return {
        **record.model_dump(mode="json", include=kept),
        "execution_id": record.launch.get("execution_id"),
        "ready_s": record.launch.get("ready_s"),
        "means": means([record]),
    }


def save_state(run_dir: Path, launches: Sequence[LaunchRecord]) -> Path:
    """Write ``states/<label>.json`` anew after each launch of a state."""
    path = run_dir / "states" / f"{launches[0].label}.json"
    write_atomic(path, dump_json({"schema": "vaws.state.v1", **state_result(launches)}))
    return path

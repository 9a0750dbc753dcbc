"""The measured states of a task, newest first, read from the small summaries of its runs."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from vaws_mcp.bench.operations import RUN_KIND
from vaws_mcp.bench.summary import FILE
from vaws_mcp.comparison.history_models import HistoryRow
from vaws_mcp.render.curves import OrderChart, Track, order_chart
from vaws_mcp.render.figures import Figure
from vaws_mcp.render.tables import Column, Table
from vaws_mcp.store.ids import is_id

SHORT = 9


@dataclass(frozen=True)
class Wanted:
    """What of the history is asked for. None is everything."""

    metric: str
    model: str | None = None
    case: str | None = None


def run_names(task_dir: Path) -> list[str]:
    """Return the names of a task's benchmark runs, newest first: a name begins with its time."""
    try:
        with os.scandir(task_dir / RUN_KIND) as entries:
            names = [entry.name for entry in entries]
    except FileNotFoundError:
        return []
    return sorted((name for name in names if is_id(name)), reverse=True)


def rows_of(task_dir: Path, names: Sequence[str], wanted: Wanted) -> Iterator[HistoryRow]:
    """Yield one row for each state and case of these runs; a run that has no summary is one row without figures."""
    for name in names:
        folder = task_dir / RUN_KIND / name
        summary = _read(folder / FILE)
        if summary is not None:
            try:
                rows = list(_measured(name, summary, wanted))
            except (KeyError, TypeError, AttributeError, ValueError):
                rows = [HistoryRow(run_id=name, at="unknown", status="unreadable")]
            yield from rows
        elif (record := _read(folder / "run.json")) is not None and wanted.model is None and wanted.case is None:
            status = str(record.get("status") or record.get("state") or "unknown")
            operation = str(record.get("operation"))
            yield HistoryRow(run_id=name, at=str(record.get("created_at")), status=status, operation=operation)


def _measured(name: str, summary: dict[str, Any], wanted: Wanted) -> Iterator[HistoryRow]:
    model = summary["model"]
    if wanted.model not in (None, model):
        return
    for state in summary["states"]:
        if wanted.case in (None, state["case"]):
            yield HistoryRow(
                run_id=name,
                at=summary["ended_at"],
                status="ok",
                model=model,
                verdict=summary.get("verdict"),
                state=state["label"],
                case=state["case"],
                sha=state.get("sha"),
                subject=state.get("subject"),
                launches=state.get("launches"),
                simulated=bool(summary.get("simulated")),
                value=state["metrics"].get(wanted.metric),
            )


def _read(path: Path) -> dict[str, Any] | None:
    """Return a JSON object, None when there is none: a history leaves out what it cannot read."""
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, dict) else None


def over_commits(rows: Sequence[HistoryRow], metric: str) -> list[Figure]:
    """Return a figure for each model and case: the metric over commits, in the order they were first measured."""
    figures: list[Figure] = []
    known = [row for row in reversed(rows) if row.value is not None and row.sha is not None]
    for model, case in dict.fromkeys((row.model or "", row.case or "") for row in known):
        chosen = [row for row in known if (row.model or "", row.case or "") == (model, case)]
        commits = list(dict.fromkeys(str(row.sha) for row in chosen))
        places = [commits.index(str(row.sha)) for row in chosen]
        pairs = sorted(zip(places, (row.value for row in chosen), strict=True), key=lambda pair: pair[0])
        track = Track(metric, [place for place, _ in pairs], [value for _, value in pairs])
        ticks = [(index, sha[:SHORT]) for index, sha in enumerate(commits)]
        chart = OrderChart("", metric, _unit(metric), "commit", [track], ticks if len(ticks) <= 40 else ())
        name = model.rstrip("/").rsplit("/", 1)[-1]
        figures.append(Figure(f"{metric} over commits: {name}, {case}", order_chart(chart)))
    return figures


def _unit(metric: str) -> str:
    if metric.endswith("_ms"):
        return "ms"
    return "tok/s" if "token" in metric or metric == "output_throughput" else "1"


def history_table(rows: Sequence[HistoryRow], metric: str) -> Table:
    """Return the rows as a table."""
    names = ("Ended", "Run", "State", "Case", "Commit", "Subject", "Status", "Verdict")
    columns = [*(Column(name) for name in names), Column(metric, unit=_unit(metric), format="number", digits=2)]
    return Table(
        columns,
        [
            [
                row.at,
                row.run_id,
                row.state,
                row.case,
                (row.sha or "")[:12],
                row.subject,
                row.status,
                row.verdict,
                row.value,
            ]
            for row in rows
        ],
    )

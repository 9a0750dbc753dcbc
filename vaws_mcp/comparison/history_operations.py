"""bench_history."""

from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

from vaws_mcp.comparison.history import Wanted, history_table, over_commits, rows_of, run_names
from vaws_mcp.comparison.history_models import BenchHistoryRequest, BenchHistoryResult, HistoryRow
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import NeedsInput
from vaws_mcp.core.operation import operation
from vaws_mcp.render.report import ComparisonReport, write_report
from vaws_mcp.taskstore.tasks import find_task

FOLDER = "benchmark/history"


@operation("bench_history", title="Benchmarks of a task", effect="read", idempotent=True)
async def bench_history(request: BenchHistoryRequest, ctx: Context) -> BenchHistoryResult:
    """List what bench_run and bench_compare have measured in a task, newest first, and plot a metric over commits.

    Values of different hosts, devices or arguments are not comparable just because they stand in one list.
    """
    task = find_task(request.context_file)
    if task is None:
        raise NeedsInput("task_missing", "no context_file was given", hint="Pass the task's context_file.")
    wanted = Wanted(request.metric, request.model, request.case)
    names, rows = await anyio.to_thread.run_sync(_look, task.directory, wanted, request.limit)
    paths: dict[str, Path] = {}
    if request.plot and any(row.value is not None for row in rows):
        paths = await anyio.to_thread.run_sync(_write, task.directory / FOLDER, task.task_id, request.metric, rows)
    ctx.simulated = any(row.simulated for row in rows)
    measured = sum(row.value is not None for row in rows)
    return BenchHistoryResult(
        summary=f"{len(names)} runs in {task.task_id}; {measured} measured states with {request.metric}",
        task_id=task.task_id,
        metric=request.metric,
        history=rows,
        more=max(0, len(names) - request.limit),
        report_paths={kind: str(path) for kind, path in paths.items()},
    )


def _look(task_dir: Path, wanted: Wanted, limit: int) -> tuple[list[str], list[HistoryRow]]:
    names = run_names(task_dir)
    return names, list(rows_of(task_dir, names[:limit], wanted))


def _write(folder: Path, task_id: str, metric: str, rows: Sequence[HistoryRow]) -> dict[str, Path]:
    table = history_table(rows, metric)
    shown = ComparisonReport(
        title=f"Benchmarks of {task_id}",
        headline=f"{metric} of {len(rows)} measured states, newest first.",
        deltas=[],
        table=table,
        rows=table,
        simulated=any(row.simulated for row in rows),
        figures=over_commits(rows, metric),
    )
    return write_report(shown, folder)

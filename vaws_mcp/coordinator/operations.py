"""task_finish."""

from vaws_mcp.coordinator.executions import stop_all
from vaws_mcp.coordinator.models import TaskFinishRequest, TaskFinishResult
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, CleanupFailed, NeedsInput
from vaws_mcp.core.operation import operation
from vaws_mcp.runs.follow import follow
from vaws_mcp.runs.operations import CANCEL_WAIT_S, stop_process
from vaws_mcp.runs.records import RunDir, all_runs
from vaws_mcp.store.records import locked, save
from vaws_mcp.taskstore.operations import describe
from vaws_mcp.taskstore.tasks import Task, find_task, read_task, timestamp


@operation("task_finish", title="Finish a task", effect="destroy", idempotent=True, timeout_s=None)
async def task_finish(request: TaskFinishRequest, ctx: Context) -> TaskFinishResult:
    """Finish a task: stop all its executions on their endpoints and close it. Its records are kept.

    Refused while a run is under way, unless `stop` is set. When something cannot be stopped the task stays open, and
    the same call tries again.
    """
    task = find_task(request.context_file)
    if task is None:
        raise NeedsInput("task_missing", "no context_file was given", hint="Pass the task's context_file.")
    cancelled = await _end_runs(ctx, task, cancel=request.stop)
    stopped, failed = await stop_all(ctx, task)
    if failed:
        raise CleanupFailed(
            "executions_left",
            f"{len(failed)} executions could not be stopped: {'; '.join(failed)}",
            layer="remote_workload",
            hint="Repeat task_finish when the endpoint can be reached.",
            retry_safe=True,
        ).carrying(stopped=stopped, cancelled_runs=cancelled)
    _close(task)
    shown = describe(task, f"finished {task.task_id}: {len(stopped)} executions stopped, records kept")
    return TaskFinishResult(**shown.model_dump(), stopped=stopped, cancelled_runs=cancelled)


async def _end_runs(ctx: Context, task: Task, *, cancel: bool) -> list[str]:
    """Cancel the task's live runs, or refuse when there are any."""
    live = [run for run in all_runs(task.directory) if run.state() in ("starting", "running")]
    if live and not cancel:
        names = ", ".join(run.run_id for run in live)
        raise Blocked(
            "runs_live",
            f"task {task.task_id} has runs under way: {names}",
            layer="local",
            hint="Wait with run_wait, end them with run_cancel, or pass stop=true.",
            retry_safe=True,
        )
    for run in live:
        await _cancel(ctx, run)
    return [run.run_id for run in live]


async def _cancel(ctx: Context, run: RunDir) -> None:
    await stop_process(run)
    state = await follow(ctx, run, CANCEL_WAIT_S * 3, replay=False)
    if state in ("starting", "running"):
        raise CleanupFailed(
            "run_not_ending",
            f"run {run.run_id} did not end within {CANCEL_WAIT_S * 3:.0f} s",
            layer="local",
            hint=f"Its log is {run.log}.",
            retry_safe=True,
        )


def _close(task: Task) -> None:
    path = task.directory / "task.json"
    with locked(path):
        record = read_task(task.directory)
        if record.state == "open":
            record.state, record.finished_at = "finished", timestamp()
            save(path, record)

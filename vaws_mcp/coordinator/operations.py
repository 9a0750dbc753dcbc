"""task_finish."""

from vaws_mcp.coordinator.finish import stop_all
from vaws_mcp.coordinator.models import TaskFinishRequest, TaskFinishResult
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, CleanupFailed, Failure, NeedsInput
from vaws_mcp.core.operation import operation
from vaws_mcp.runs.follow import follow
from vaws_mcp.runs.operations import CANCEL_WAIT_S, stop_process
from vaws_mcp.runs.records import RunDir, all_runs
from vaws_mcp.source.records import FILES as TREE_FILES
from vaws_mcp.source.tree import put_back
from vaws_mcp.store.records import locked, save
from vaws_mcp.taskstore.operations import describe
from vaws_mcp.taskstore.tasks import Task, find_task, read_task, timestamp


@operation("task_finish", title="Finish a task", effect="destroy", idempotent=True, timeout_s=None)
async def task_finish(request: TaskFinishRequest, ctx: Context) -> TaskFinishResult:
    """Finish a task: stop all its executions, put back trees that a killed run left changed, and keep the records.

    Refused while a run is under way, unless `stop` is set. When something cannot be stopped the task stays open, and
    the same call tries again.
    """
    task = find_task(request.context_file)
    if task is None:
        raise NeedsInput("task_missing", "no context_file was given", hint="Pass the task's context_file.")
    cancelled = await _end_runs(ctx, task, cancel=request.stop)
    stopped, failed = await stop_all(ctx, task)
    if not failed:
        failed = await _put_trees_back(ctx, task)
    if failed and request.abandon:
        for sentence in failed:
            ctx.warn(f"abandoned: {sentence}")
    elif failed:
        raise CleanupFailed(
            "not_cleaned_up",
            f"task {task.task_id} could not be cleaned up: {'; '.join(failed)}",
            layer="remote_workload",
            hint="Repeat task_finish when the endpoint can be reached, or give up on it with abandon=true.",
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


async def _put_trees_back(ctx: Context, task: Task) -> list[str]:
    """Put back the trees that killed runs left changed; return sentences about those that could not be."""
    failed: list[str] = []
    for run in all_runs(task.directory):
        for record in sorted(run.path.glob(TREE_FILES)):
            try:
                note = await put_back(ctx, record)
            except Failure as failure:
                failed.append(failure.message)
            else:
                if note:
                    ctx.warn(note)
    return failed


def _close(task: Task) -> None:
    path = task.directory / "task.json"
    with locked(path):
        record = read_task(task.directory)
        if record.state == "open":
            record.state, record.finished_at = "finished", timestamp()
            save(path, record)

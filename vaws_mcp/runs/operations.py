"""run_status, run_wait, run_list, run_cancel."""

import contextlib
import os
import signal
import time
from typing import Any

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.operation import operation
from vaws_mcp.runs.follow import FIRST_LOOK_S, SLOWEST_LOOK_S, follow
from vaws_mcp.runs.models import RunIdRequest, RunListRequest, RunListResult, RunView, RunWaitRequest
from vaws_mcp.runs.records import RunDir, all_runs, find_run
from vaws_mcp.runs.view import view
from vaws_mcp.taskstore.tasks import find_task, tasks_dir

CANCEL_WAIT_S = 40.0
START_BOUND_S = 20.0


@operation("run_status", title="Status of a run", effect="read", idempotent=True, positionals=("run_id",))
async def run_status(request: RunIdRequest, ctx: Context) -> RunView:
    """Say how far a run is, at once. `interrupted` means that its process is gone before it finished."""
    run = find_run(ctx.state_dir, request.run_id)
    answer = view(run, run.state(), with_result=False)
    if answer.status == "interrupted":
        answer.outcome = "success"  # the question was answered; run_wait is where an interrupted run is a failure
    elif answer.state == "finished":
        ctx.simulated = bool((run.result() or {}).get("simulated"))
        answer.hint = f"Call run_wait with run_id={run.run_id} for the whole result."
        answer.outcome = "success"
    return answer


@operation("run_wait", title="Wait for a run", effect="read", idempotent=True, positionals=("run_id",), timeout_s=None)
async def run_wait(request: RunWaitRequest, ctx: Context) -> RunView:
    """Wait until a run ends and return its result.

    After `wait_s` seconds the answer is `running`, and its hint says to call again. Works from any process. Progress
    notifications flow while it waits. Cancelling this call does not end the run.
    """
    run = find_run(ctx.state_dir, request.run_id)
    state = await follow(ctx, run, request.wait_s if request.wait_s is not None else ctx.wait_s, replay=False)
    answer = view(run, state, with_result=True)
    result = answer.result or {}
    answer.verdict = result.get("verdict")
    ctx.simulated = ctx.simulated or bool(result.get("simulated"))
    return answer


@operation("run_list", title="List runs", effect="read", idempotent=True)
async def run_list(request: RunListRequest, ctx: Context) -> RunListResult:
    """List the runs of one task, or of all tasks, newest first."""
    task = find_task(request.context_file)
    folders = [task.directory] if task else sorted(tasks_dir(ctx.state_dir).glob("*"))
    runs = sorted((run for folder in folders for run in all_runs(folder)), key=lambda run: run.run_id, reverse=True)
    rows: list[dict[str, Any]] = []
    unreadable: list[str] = []
    for run in runs[: request.limit]:
        try:
            rows.append(_row(run))
        except (Failure, OSError) as error:
            unreadable.append(str(error))
    more = max(0, len(runs) - request.limit)
    return RunListResult(runs=rows, unreadable=unreadable, more=more, summary=f"{len(runs)} runs")


def _row(run: RunDir) -> dict[str, Any]:
    record = run.record()
    return {
        "run_id": record.run_id,
        "operation": record.operation,
        "task_id": record.task_id,
        "state": run.state(),
        "status": record.status,
        "created_at": record.created_at,
        "ended_at": record.ended_at,
    }


@operation("run_cancel", title="End a run", effect="destroy", idempotent=True, positionals=("run_id",))
async def run_cancel(request: RunIdRequest, ctx: Context) -> RunView:
    """End a run's work: it stops what it started on the endpoint, keeps what it finished, and ends as `cancelled`.

    A run that has already ended is left as it is.
    """
    run = find_run(ctx.state_dir, request.run_id)
    await stop_process(run)
    state = await follow(ctx, run, CANCEL_WAIT_S, replay=False)
    answer = view(run, state, with_result=True)
    if state in ("starting", "running"):
        answer.status = "stopping"
        answer.summary = f"asked {run.run_id} to stop; it is still cleaning up"
    elif state == "finished":
        answer.outcome = "success"
        answer.summary = f"{run.run_id} has ended: {answer.status}"
    return answer


async def stop_process(run: RunDir) -> bool:
    """Ask a run's process to stop, as soon as it has come up. The run's lock proves that the recorded process lives.

    Returns whether there was a live process to ask.
    """
    end = time.monotonic() + START_BOUND_S
    pause = FIRST_LOOK_S
    while run.state() == "starting" and time.monotonic() < end:
        await anyio.sleep(pause)
        pause = min(pause * 1.5, SLOWEST_LOOK_S)
    pid = run.record().pid
    if pid is None or not run.is_alive():
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    return True

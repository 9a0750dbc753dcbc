"""Handing an operation to a run process, and being that process."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
import orjson
from anyio.abc import TaskStatus

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.envelope import Stopwatch, failed, succeeded
from vaws_mcp.core.failures import Cancelled, Failure
from vaws_mcp.core.files import write_atomic
from vaws_mcp.core.models import Request
from vaws_mcp.core.operation import Operation
from vaws_mcp.core.progress import ProgressEvent
from vaws_mcp.runs.follow import follow
from vaws_mcp.runs.launch import create_run, launch
from vaws_mcp.runs.operations import stop_process
from vaws_mcp.runs.records import RunDir
from vaws_mcp.runs.view import view
from vaws_mcp.store.events import append_event
from vaws_mcp.store.records import dump_json
from vaws_mcp.taskstore.tasks import require_task, timestamp

WAITING_FIELDS = frozenset({"wait_s", "on_cancel"})


async def run_detached(operation: Operation, request: Request, ctx: Context, watch: Stopwatch) -> dict[str, Any]:
    """Start a run for an operation and wait for it as long as the caller allows.

    Returns: the operation's own answer when the run ended in time, else ``running`` with the run's id and a hint.
    Raises: NeedsInput without a task.
    """
    task = require_task(ctx, getattr(request, "context_file", None), operation.name)
    assert operation.run_kind is not None  # noqa: S101 - the caller has looked
    arguments = request.model_dump(mode="json", exclude_unset=True)
    arguments = {name: value for name, value in arguments.items() if name not in WAITING_FIELDS}
    arguments["context_file"] = str(task.context_file)
    run = create_run(task, operation.run_kind, operation.name, arguments)
    await launch(run, ctx.state_dir, operation.name, arguments)
    asked = getattr(request, "wait_s", None)
    try:
        state = await follow(ctx, run, asked if asked is not None else ctx.wait_s, replay=True)
    except anyio.get_cancelled_exc_class():
        if getattr(request, "on_cancel", "leave") == "stop":
            with anyio.CancelScope(shield=True):
                await stop_process(run)
        raise
    result = run.result()
    if state == "finished" and result is not None:
        result["warnings"] = list(dict.fromkeys([*ctx.warnings, *result.get("warnings", [])]))
        return result
    return succeeded(operation.name, view(run, state, with_result=False), watch, ctx)


async def execute_run(find: dict[str, Operation], directory: Path, lock: int, raw: bytes, state_dir: Path) -> int:
    """Be the process of a run: carry the operation out, write its result, and return the exit code of the process.

    SIGTERM cancels the work; the operation cleans up and the run ends as ``cancelled``.
    """
    os.set_inheritable(lock, False)
    run = RunDir(directory)
    sent = orjson.loads(raw)
    operation = find[sent["operation"]]
    async with Resources() as resources:
        ctx = Context(state_dir=state_dir, resources=resources, sink=_recorder(run), run_dir=directory)
        answer = await _cancellable(operation, sent["request"], ctx, run)
    answer["run_id"] = run.run_id
    answer["refs"] = {"run": str(run.path), "log": str(run.log), **answer["refs"]}
    write_atomic(run.path / "result.json", dump_json(answer))
    record = run.record()
    record.state, record.ended_at = "finished", timestamp()
    record.status, record.outcome = answer["status"], answer["outcome"]
    run.save(record)
    return 0


def _recorder(run: RunDir) -> Any:
    async def record(event: ProgressEvent) -> None:
        append_event(run.events, {"at": timestamp(), **event.as_dict()})

    return record


async def _cancellable(operation: Operation, arguments: dict[str, Any], ctx: Context, run: RunDir) -> dict[str, Any]:
    """Carry the operation out under a scope that SIGTERM cancels.

    The run counts as running from the moment it can be cancelled. Further signals do not disturb the cleaning up.
    """
    from vaws_mcp.dispatch.invoke import invoke

    watch = Stopwatch()
    answer: dict[str, Any] | None = None
    work = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        await group.start(_cancel_on_signal, work)
        record = run.record()
        record.pid, record.state = os.getpid(), "running"
        run.save(record)
        with work:
            answer = await invoke(operation, arguments, ctx)
        group.cancel_scope.cancel()
    # The work is over: a late signal must not keep its answer from being written.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if answer is not None:
        return answer
    stopped: Failure = Cancelled("cancelled", f"{operation.name} was cancelled", layer="caller", retry_safe=True)
    return failed(operation.name, stopped.carrying(**ctx.partial), watch, ctx)


async def _cancel_on_signal(work: anyio.CancelScope, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _number in signals:
            work.cancel()

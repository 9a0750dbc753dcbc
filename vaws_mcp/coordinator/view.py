"""An execution as a result: its fields, and in words what it does and what to do next."""

import signal
from typing import Any

from vaws_mcp.coordinator.models import ExecutionResult
from vaws_mcp.coordinator.queueing import clock, queue_sentence
from vaws_mcp.coordinator.records import ExecutionRecord, record_path
from vaws_mcp.core.context import Context
from vaws_mcp.core.redact import redact_text
from vaws_mcp.taskstore.tasks import Task

COPIED = ("queue", "blocked", "probe", "lease_scope", "lease_scope_why", "stop_reason", "note", "devices")
LISTED = ("execution_id", "service", "kind", "state", "exit_reason", "devices", "submitted_at", "resources_released")


def describe(ctx: Context, task: Task, record: ExecutionRecord, status: dict[str, Any]) -> ExecutionResult:
    """Return an execution with summary and hint; what bars formal results or is seen too narrowly is a warning."""
    ending = status.get("exit") or {}
    result = ExecutionResult(
        execution_id=record.execution_id,
        task_id=record.task_id,
        kind=record.kind,
        service=record.service,
        endpoint=record.endpoint.address,
        state=status["state"],
        exit_code=ending.get("code"),
        signal=ending.get("signal"),
        exit_reason=ending.get("reason"),
        command=record.command,
        ports=status.get("ports") or record.ports,
        assumed_free=bool(status.get("assumed_free")),
        health_skipped=bool(status.get("health_skipped")),
        reservation=status.get("reservation"),
        resources_released=status.get("resources_released"),
        processes=_processes(status.get("family")),
        survivors=_processes(status.get("survivors")),
        submitted_at=_time(status.get("submitted_at")) or record.created_at,
        running_at=_time(status.get("started_at")),
        ended_at=_time(status.get("ended_at")),
        log_bytes=status.get("logs") or {},
        receipt=record.receipt,
        remote_dir=f"~/.vaws/executions/{record.execution_id}",
        refs={"record": str(record_path(task.directory, record.execution_id))},
    )
    result = result.model_copy(update={name: status.get(name) for name in COPIED})
    _warn(ctx, result)
    if status.get("supervised") is False and result.state in ("starting", "running", "stopping"):
        ctx.warn(
            f"the supervisor of {record.name} is gone, and with it the hold on its devices and ports; its processes "
            "live on, and action=stop ends them"
        )
    result.status = "blocked" if result.blocked and result.state == "queued" else result.state
    result.summary = sentence(record.name, result)
    result.hint = _hint(result)
    return result


def _time(value: Any) -> str | None:
    return None if value is None else clock(value)


def _processes(items: Any) -> list[dict[str, Any]]:
    """Return processes with their titles masked."""
    return [{**item, "title": redact_text(str(item.get("title", "")))} for item in items or []]


def _warn(ctx: Context, result: ExecutionResult) -> None:
    if result.lease_scope == "container":
        why = f": {result.lease_scope_why}" if result.lease_scope_why else ""
        ctx.warn(f"its hold on devices and ports is only seen within this container{why}")
    if result.assumed_free:
        ctx.warn("devices were taken without a probe (assume_free); no formal result may come from this")
    if result.health_skipped:
        ctx.warn("the health of the devices was not asked for (skip_health); no formal result may come from this")


def sentence(name: str, result: ExecutionResult) -> str:
    """Say in one sentence what an execution does or how it ended."""
    state = result.state
    if state == "queued" and result.blocked:
        return f"{name} is blocked: {result.blocked.get('message')}"
    if state == "queued":
        return f"{name} is {queue_sentence({'state': state, 'queue': result.queue})}"
    if state == "running":
        places = ",".join(str(item.get("logic")) for item in result.devices or [])
        verb = "holds" if result.kind in ("hold", "reservation") else "is running"
        return (
            f"{name} {verb}{f' on NPU {places}' if places and verb != 'holds' else f' NPU {places}' if places else ''}"
        )
    if state == "exited":
        unstarted = result.running_at is None and result.resources_released
        return f"{name} {_ended(result)}{'' if unstarted else _rest(result)}"
    if state == "lost":
        return f"{name} is lost: {result.note or 'neither its process nor its record can be verified'}{_rest(result)}"
    if state == "never_started":
        return f"{name} was never started: {result.note}"
    return f"{name} is {state}"


def _ended(result: ExecutionResult) -> str:
    if result.exit_reason == "timeout" and result.kind in ("run", "serve"):
        return f"was ended: {result.stop_reason or 'the time limit was reached'}"
    if result.exit_reason == "cancelled":
        return f"was stopped ({result.stop_reason})" if result.stop_reason else "was stopped"
    if result.signal is not None:
        return f"was ended by {_signal_name(result.signal)}"
    if result.running_at is None:
        return f"could not be started: {result.note}"
    if result.exit_code is None:
        return f"has ended: {result.note or 'its exit code is not known'}"
    return f"ended with exit code {result.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _rest(result: ExecutionResult) -> str:
    if result.resources_released:
        return "; everything it held is free"
    left = f": {len(result.survivors)} processes survive" if result.survivors else ""
    return f"; its resources are not released{left}"


def _hint(result: ExecutionResult) -> str | None:
    named = f"execution_id={result.execution_id}"
    if result.status == "blocked":
        said = (result.blocked or {}).get("hint")
        return f"{said or 'It stays queued.'} vaws_execution {named} action=stop gives up its place."
    if result.state in ("queued", "starting"):
        return f"Call vaws_execution with {named}, action=wait and until=running; action=stop gives up its place."
    if result.state == "running" and result.kind in ("hold", "reservation"):
        held = result.execution_id
        return f"vaws_run with reservation={held} uses it; npu_hold with release={held} ends it."
    if result.state == "running":
        return f"vaws_execution with {named}: action=tail reads its output, action=wait waits, action=stop ends it."
    if result.state == "stopping" or (result.state in ("exited", "lost") and not result.resources_released):
        return f"Call vaws_execution with {named} and action=stop again; it says what survives."
    return None


def row(result: ExecutionResult) -> dict[str, Any]:
    """Return what a list says of an execution."""
    return {name: getattr(result, name) for name in LISTED} | {"summary": result.summary}

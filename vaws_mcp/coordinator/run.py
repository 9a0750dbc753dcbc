"""vaws_run: any command as a managed execution."""

import shlex
import time
from dataclasses import replace
from typing import Any

from vaws_mcp.coordinator.asked import checked_environment, device_request
from vaws_mcp.coordinator.executions import log_tail, observe, take_status, wait_until
from vaws_mcp.coordinator.failures import foreign_execution, no_execution, preflight_failed, start_refused
from vaws_mcp.coordinator.models import ExecutionResult, VawsRunRequest
from vaws_mcp.coordinator.ready import is_over, wait_for
from vaws_mcp.coordinator.receipt import launch_receipt
from vaws_mcp.coordinator.records import ExecutionRecord, find_execution
from vaws_mcp.coordinator.services import Started, start_or_reconnect
from vaws_mcp.coordinator.view import describe
from vaws_mcp.coordinator.wanted import DeviceRequest, Wanted
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, Refused
from vaws_mcp.core.models import Result
from vaws_mcp.core.operation import operation
from vaws_mcp.core.redact import redact_text
from vaws_mcp.core.sanitize import one_line, plain_text
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.endpoint.policy import check_command
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import Task, require_task

PREFLIGHT_BOUND_S = 120.0
PREFLIGHT_BYTES = 8_000
TAIL_BYTES = 8_000
SETTLE_S = 5.0
SETTLE_STEP_S = 0.2


def check_run(request: VawsRunRequest) -> None:
    """Refuse what can be seen to be wrong before anything is contacted.

    Raises: Refused.
    """
    if not request.command or not request.command[0]:
        raise Refused("command_missing", "vaws_run needs a command", hint="On the command line it stands after `--`.")
    checked_environment(request.env, request.unset_env)
    _devices(request)
    wrong = [port for port in request.ports if not 1 <= port <= 65535]
    if wrong:
        raise Refused("port_malformed", f"{wrong[0]} is no port", hint="Give numbers from 1 to 65535.")
    if len(set(request.ports)) != len(request.ports):
        raise Refused("port_malformed", "a port is named twice", hint="Name each port once.")
    if request.restart and request.service is None:
        raise Refused("restart_unnamed", "restart needs a service name", hint="Pass service.")


def _devices(request: VawsRunRequest) -> DeviceRequest | None:
    asked = device_request(
        request.devices,
        request.npu_count,
        request.env,
        assume_free=request.assume_free,
        skip_health=request.skip_health,
    )
    if request.reservation is None:
        return asked
    if request.npu_count is not None:
        raise Refused("devices_conflict", "npu_count cannot choose among a reservation", hint="Name devices.")
    return replace(asked or DeviceRequest(), of_reservation=True)


@operation(
    "vaws_run",
    title="Run a managed command",
    effect="write",
    timeout_s=None,
    positionals=("command...",),
    aliases=(("argv", "command"), ("npus", "npu_count"), ("relaunch", "restart")),
    check=check_run,
)
async def vaws_run(request: VawsRunRequest, ctx: Context) -> ExecutionResult:
    """Start a command that is given devices and ports, outlives this call, and can be found again and stopped whole.

    It waits in a fair queue when others hold what it needs: `queued` is a success, with its position and the holders,
    and the hint says how to wait. With a `service` name the same call again reconnects to the same execution. Commands
    that end soon and need no device: remote_bash.
    """
    task = require_task(ctx, request.context_file, "vaws_run")
    reservation = _reservation(task, request)
    endpoint = await reach(ctx, request, command=shlex.join(request.command))
    if request.preflight:
        check_command(endpoint.config, shlex.join(request.preflight))
    if reservation is not None and reservation.endpoint.address != endpoint.config.address:
        why = f"reservation {reservation.execution_id} is on {reservation.endpoint.address}"
        raise Refused("reservation_elsewhere", why, hint="Leave endpoint out, or name that one.")
    started = await start_or_reconnect(
        ctx,
        task,
        endpoint,
        wanted_of(endpoint, request),
        _preparing(ctx, task, endpoint, request),
        restart=request.restart,
    )
    try:
        return await _answer(ctx, task, endpoint, request, started)
    except Failure as failure:
        raise failure.carrying(execution_id=started.record.execution_id, service=request.service) from None


def _reservation(task: Task, request: VawsRunRequest) -> ExecutionRecord | None:
    if request.reservation is None:
        return None
    record = find_execution(task.directory, request.reservation)
    if record is None:
        raise no_execution(f"execution {request.reservation} of task {task.task_id}")
    if record.task_id != task.task_id:
        raise foreign_execution(record.execution_id, record.task_id, task.task_id)
    return record


def wanted_of(endpoint: Endpoint, request: VawsRunRequest) -> Wanted:
    """Return what a request asks for."""
    return Wanted(
        command=list(request.command),
        service=request.service,
        cwd=request.cwd or endpoint.config.workdir,
        env=checked_environment(request.env, request.unset_env),
        env_spec=endpoint.env_spec(),
        ports=list(request.ports),
        devices=_devices(request),
        reservation=request.reservation,
        timeout_s=request.timeout,
    )


def _preparing(ctx: Context, task: Task, endpoint: Endpoint, request: VawsRunRequest) -> Any:
    async def prepare(wanted: Wanted) -> Wanted:
        if request.preflight:
            await ctx.progress("preflight", shlex.join(request.preflight))
            await _preflight(endpoint, list(request.preflight), wanted)
        return replace(wanted, receipt=await launch_receipt(task, endpoint, wanted.env))

    return prepare


async def _preflight(endpoint: Endpoint, argv: list[str], wanted: Wanted) -> None:
    """Run a command that has to succeed before anything is submitted.

    Raises: Failure ``preflight_failed`` with its output.
    """
    params = {
        "argv": argv,
        "cwd": wanted.cwd,
        "env": wanted.env,
        "env_spec": wanted.env_spec,
        "timeout_s": PREFLIGHT_BOUND_S,
        "max_output_bytes": PREFLIGHT_BYTES,
    }
    try:
        answer = await endpoint.call("run", params, deadline_s=PREFLIGHT_BOUND_S + 30, retry_safe=True)
    except Failure as failure:
        if failure.layer == "transport":
            raise
        raise preflight_failed(failure.message, {"command": argv, "exit_code": None}) from None
    ran = answer.result
    if ran["exit_code"] == 0 and not ran["timed_out"]:
        return
    split = ran["stdout"]["kept_head"] + ran["stdout"]["kept_tail"]
    out, err = (plain_text(part.decode("utf-8", "replace")) for part in (answer.body[:split], answer.body[split:]))
    ended = f"exit code {ran['exit_code']}" if ran["exit_code"] is not None else str(ran["signal_name"])
    why = f"it did not end within {PREFLIGHT_BOUND_S:.0f} s" if ran["timed_out"] else ended
    said = one_line((err or out).strip().rsplit("\n", 1)[-1])
    shown = {"command": argv, "exit_code": ran["exit_code"], "stdout": redact_text(out), "stderr": redact_text(err)}
    raise preflight_failed(f"{why}: {said}" if said else why, shown)


async def _answer(
    ctx: Context, task: Task, endpoint: Endpoint, request: VawsRunRequest, started: Started
) -> ExecutionResult:
    """Wait as the request says and describe what the execution is then."""
    record = started.record
    wait_s = request.wait_s if request.wait_s is not None else ctx.wait_s
    if request.wait_until is not None:
        status = await wait_for(ctx, endpoint, record, request.wait_until, wait_s)
    else:
        status = await settled(ctx, endpoint, record, SETTLE_S if wait_s is None else min(wait_s, SETTLE_S))
    endpoint = await renewed(ctx, endpoint)  # waiting may have made it anew
    if not is_over(status):
        status = {**await observe(endpoint, record), "reached": status.get("reached")}
    status = take_status(task, record, status)
    result = describe(ctx, task, record, status)
    result.reconnected = started.reconnected
    if is_over(status):
        await add_output(endpoint, record, result)
    return judged(result, request.wait_until, reached=bool(status.get("reached")))


async def settled(ctx: Context, endpoint: Endpoint, record: ExecutionRecord, bound_s: float) -> dict[str, Any]:
    """Wait a moment for what needs no waiting: until it runs, has ended, or is known to be queued behind something."""
    status = record.status
    end = time.monotonic() + bound_s
    while _may_start_at_once(status) and time.monotonic() < end:
        status = await wait_until(ctx, endpoint, record, "running", SETTLE_STEP_S)
    return status


def _may_start_at_once(status: dict[str, Any]) -> bool:
    queue = status.get("queue") or {}
    waits = queue.get("waiting_for") or queue.get("ahead") or status.get("blocked")
    return status.get("state") == "starting" or (status.get("state") == "queued" and not waits)


async def add_output(endpoint: Endpoint, record: ExecutionRecord, result: ExecutionResult) -> None:
    """Add the ends of both logs to a result."""
    if result.state != "never_started" and result.kind in ("run", "serve"):
        result.stdout_tail = plain_text(await log_tail(endpoint, record, "stdout", TAIL_BYTES))
        result.stderr_tail = plain_text(await log_tail(endpoint, record, "stderr", TAIL_BYTES))


def judged(result: ExecutionResult, until: str | None, *, reached: bool) -> ExecutionResult:
    """Set status and outcome by how an execution ended. A non-zero exit code is a result, not an error.

    Raises: Failure when it could not be started, is lost, or ended without reaching what was waited for; it carries
    the result.
    """
    if result.status == "blocked":
        result.outcome = "blocked"
    elif result.state in ("lost", "never_started"):
        raise _failure(result, result.state, "The end of its log is in stdout_tail and stderr_tail, if there is any.")
    elif result.state != "exited":
        return result
    elif result.exit_reason == "timeout":
        result.status, result.outcome = "timeout", "timeout"
    elif result.running_at is None and result.exit_reason == "failed":
        raise start_refused(result.summary, result.blocked, _fields(result))
    elif until == "released" and not reached:
        raise _failure(result, "not_released", f"vaws_execution action=stop with {result.execution_id} tries again.")
    elif until == "ready":
        result.summary += "; it was not ready before"
        raise _failure(result, "exited_before_ready", "The ends of its logs are in stdout_tail and stderr_tail.")
    elif result.exit_reason == "failed":
        result.status = "non_zero_exit" if result.exit_code is not None else "signalled"
    return result


def _failure(result: ExecutionResult, code: str, hint: str) -> Failure:
    return Failure(
        code,
        result.summary,
        layer="remote_workload",
        hint=hint,
        phase="run",
        fields=_fields(result),
        refs=result.refs,
    )


def _fields(result: ExecutionResult) -> dict[str, Any]:
    return result.model_dump(mode="json", exclude=set(Result.model_fields))

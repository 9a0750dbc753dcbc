"""serve_start."""

import shlex
from collections.abc import Awaitable, Callable
from dataclasses import replace

from vaws_mcp.coordinator.asked import checked_environment, duration_s
from vaws_mcp.coordinator.executions import take_status
from vaws_mcp.coordinator.receipt import launch_receipt
from vaws_mcp.coordinator.records import ExecutionRecord, find_execution, services
from vaws_mcp.coordinator.services import Started, start_or_reconnect
from vaws_mcp.coordinator.wanted import DeviceRequest, TreeUse, Wanted
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving import devices
from vaws_mcp.serving.command import serve_argv
from vaws_mcp.serving.devices import NO_DEVICES, check_devices
from vaws_mcp.serving.idle import idle_label, still_wanted
from vaws_mcp.serving.models import ServeStartRequest, ServeStartResult
from vaws_mcp.serving.preflight import check_endpoint, choose_port
from vaws_mcp.serving.preset import with_preset
from vaws_mcp.serving.ready import Bounds, Progressed, ReadyWatch
from vaws_mcp.serving.records import ServiceRecord, ready_record, save_ready
from vaws_mcp.serving.settings import LOOPBACK, ServeSettings, default_served_name, without_flags
from vaws_mcp.serving.stop import stop_service
from vaws_mcp.serving.target import Target
from vaws_mcp.serving.view import service_fields
from vaws_mcp.source.operations import sync_bound, warn_old_code
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import Task, require_task, timestamp

AGAIN_BOUND_S = 30.0


def settings_of(request: ServeStartRequest) -> ServeSettings:
    """Return the settings of a request. Arguments that were left out are None there, so that others can fill them."""
    return ServeSettings(
        model=request.model,
        served_model_name=request.served_model_name or default_served_name(request.model),
        port=request.port,
        tp=request.tp,
        dp=request.dp,
        serve_args=without_flags(request.serve_args, request.unset_args),
        env=request.extra_env,
        health_timeout_s=request.health_timeout,
        host=request.host or LOOPBACK,
    )


def check_start(request: ServeStartRequest) -> None:
    """Refuse what can be seen to be wrong before anything is contacted.

    Raises: Refused.
    """
    settings = settings_of(request)
    settings.check()
    checked_environment(request.extra_env, request.unset_env)
    _idle_s(request)
    check_devices(asked_devices(request), settings)


def _check(request: ServeStartRequest, ctx: Context) -> None:
    check_start(with_preset(request, ctx.state_dir).request)


def _idle_s(request: ServeStartRequest) -> int | None:
    return None if request.idle_ttl is None else duration_s(request.idle_ttl)


def asked_devices(request: ServeStartRequest) -> DeviceRequest | None:
    """Return the devices that a request names, or None when it names none or wants none.

    Raises: Refused ``devices_conflict``.
    """
    return devices.asked_devices(request.devices, request.npu_count, request.extra_env)


@operation(
    "serve_start",
    title="Start a vLLM service",
    effect="write",
    idempotent=True,
    timeout_s=None,
    positionals=("serve_args...",),
    aliases=(("relaunch", "restart"), ("vllm_args", "serve_args"), ("name", "service")),
    check_with=_check,
)
async def serve_start(request: ServeStartRequest, ctx: Context) -> ServeStartResult:
    """Start `vllm serve` as a named service and wait for its first token; it lives on until serve_stop.

    `queued` and `starting` are successes: the same call again reconnects to the same execution and goes on waiting.
    Other arguments for a name that is in use are refused, with what differs, unless `restart` is set. Explicit
    arguments win over a `preset`. Devices: on an endpoint with NPUs tp x dp free ones are leased unless `devices` or
    `npu_count` says which; `devices none` leases nothing (CPU). Local trees that the task has bound are brought to the
    endpoint first, as by code_sync. A start that fails is cleaned up, and the answer has class, line and hint of its
    cause.
    """
    task = require_task(ctx, request.context_file, "serve_start")
    filled = with_preset(request, ctx.state_dir)
    request = filled.request
    settings = settings_of(request)
    endpoint = await reach(ctx, request, command=shlex.join(serve_argv(settings, settings.port or 0)))
    wanted = wanted_of(endpoint, request, settings)
    prepare = _preparing(ctx, task, endpoint, request, settings)
    last = _completing(ctx, task, endpoint, request)
    started = await start_or_reconnect(
        ctx, task, endpoint, wanted, prepare, restart=request.restart, complete_last=last
    )
    if started.reconnected and not request.skip_parity:
        await warn_old_code(ctx, task, endpoint)
    try:
        progressed = await _follow(ctx, task, endpoint, request, started)
    except Failure as failure:
        raise failure.carrying(execution_id=started.record.execution_id, service=request.service) from None
    result = _answer(task, request, started, progressed)
    result.preset, result.config_origin = request.preset, filled.origin
    return result


def wanted_of(endpoint: Endpoint, request: ServeStartRequest, settings: ServeSettings) -> Wanted:
    """Return what a request asks for, before the endpoint has been asked for a port and its devices."""
    asked = asked_devices(request)
    env = checked_environment(request.extra_env, request.unset_env)
    named = asked.as_json() if asked else {"none": True} if request.devices == NO_DEVICES else "default"
    return Wanted(
        command=serve_argv(settings, settings.port or 0),
        kind="serve",
        service=request.service,
        cwd=endpoint.config.workdir,
        env=env,
        env_spec=endpoint.env_spec(),
        devices=asked,
        idle_s=_idle_s(request),
        identity={
            "model": settings.model,
            "served_model_name": settings.served_model_name,
            "tp": settings.tp,
            "dp": settings.dp,
            "devices": named,
            "host": settings.host,
            "port": settings.port,
            "serve_args": settings.serve_args,
            "env": env,
            "idle_ttl": _idle_s(request),
        },
    )


def _preparing(
    ctx: Context, task: Task, endpoint: Endpoint, request: ServeStartRequest, settings: ServeSettings
) -> Callable[[Wanted], Awaitable[Wanted]]:
    async def prepare(wanted: Wanted) -> Wanted:
        """Check the inputs on the endpoint and fill in port and devices; nothing that runs has been touched yet."""
        await ctx.progress("preflight", f"checking {settings.model} on {endpoint.config.address}")
        found = await check_endpoint(endpoint, settings)
        port = request.port if _is_own(task, request) else None
        port = port or await choose_port(endpoint, settings.port)
        asked = wanted.devices
        if asked is None and found.npus and request.devices != NO_DEVICES:
            asked = DeviceRequest(count=settings.devices_needed())
        target = Target.of(settings, port)
        return replace(
            wanted,
            command=serve_argv(settings, port),
            ports=[port],
            devices=asked,
            # Nothing may write a tree from which a service runs.
            trees=tuple(TreeUse(path) for path in found.trees),
            labels={"kind": "vllm-serve", "model": settings.model, **target.labels(), **idle_label(wanted.idle_s)},
        )

    return prepare


def _completing(
    ctx: Context, task: Task, endpoint: Endpoint, request: ServeStartRequest
) -> Callable[[Wanted], Awaitable[Wanted]]:
    async def complete(wanted: Wanted) -> Wanted:
        """Bring the local trees to the endpoint: by now no service of this name runs from them. Then note the facts."""
        if not request.skip_parity:
            await sync_bound(ctx, task, endpoint)
        return replace(wanted, receipt=await launch_receipt(task, endpoint, wanted.env))

    return complete


def _is_own(task: Task, request: ServeStartRequest) -> bool:
    """Tell whether the port asked for is that of the service which this call replaces."""
    bound = services(task.directory).get(request.service) if request.restart and request.port else None
    record = find_execution(task.directory, bound) if bound else None
    return record is not None and not record.ended and request.port in record.ports


async def _follow(
    ctx: Context, task: Task, endpoint: Endpoint, request: ServeStartRequest, started: Started
) -> Progressed:
    """Wait for readiness as long as the caller wants to.

    Raises: Failure of the start; a service that ended, was not admitted or lost its port is cleaned up first.
    """
    record = started.record
    if not request.wait and record.status.get("state") in ("queued", "starting", "running"):
        state = "queued" if record.status["state"] == "queued" else "starting"
        return Progressed(state, "nobody waited for it")
    await still_wanted(endpoint, record)
    target = _target(request, record)
    wait_s = 0.0 if not request.wait else request.wait_s if request.wait_s is not None else ctx.wait_s
    was_ready = started.reconnected and ready_record(task, record.execution_id) is not None
    if was_ready:
        # It has been ready before: if it does not answer soon, it is broken rather than slow.
        wait_s = AGAIN_BOUND_S if wait_s is None else min(wait_s, AGAIN_BOUND_S)
    watch = ReadyWatch(ctx, endpoint, record, target, fresh=not started.reconnected)
    try:
        progressed = await watch.wait(Bounds(request.health_timeout, wait_s, left_alone=True))
    except Failure as failure:
        if _is_lost(failure, reconnected=started.reconnected):
            await stop_service(ctx, task, endpoint, record, failure)
        raise
    if progressed.state == "ready":
        ready = ServiceRecord(ready_at=timestamp(), phases=progressed.phases, took=progressed.took)
        save_ready(task, record.execution_id, ready)
    elif was_ready:
        progressed.state = "degraded"
    return progressed


def _is_lost(failure: Failure, *, reconnected: bool) -> bool:
    """Tell whether nothing will come of a start any more, so that what is left of it has to go."""
    if failure.code == "port_foreign":
        return not reconnected
    return failure.phase in ("serve", "admission") and failure.outcome != "timeout"


def _target(request: ServeStartRequest, record: ExecutionRecord) -> Target:
    return Target.of(settings_of(request), int(record.labels["port"]))


def _answer(task: Task, request: ServeStartRequest, started: Started, progressed: Progressed) -> ServeStartResult:
    record = started.record
    take_status(task, record, record.status)
    result = ServeStartResult(
        **service_fields(task, record, record.status),
        reconnected=started.reconnected,
        command=record.command,
    )
    result.state = result.status = progressed.state
    if progressed.phases:
        result.phases, result.took = progressed.phases, progressed.took
    name = f"service {request.service} ({record.execution_id})"
    if progressed.state == "ready":
        whole = result.phases.get("first_token")
        took = f" after {whole:.1f} s" if whole is not None and not started.reconnected else ""
        result.summary = f"{name} is ready{took} on {result.host}:{result.port}"
        result.hint = "serve_status looks at it, serve_stop ends it."
        return result
    result.missing = progressed.missing
    result.summary = f"{name} is {progressed.state}: {progressed.missing}"
    result.hint = "Call serve_start again with the same arguments to go on waiting; serve_stop gives up."
    if progressed.state == "degraded":
        result.outcome = "failed"
        result.hint = "It was ready before and does not answer now: serve_logs, then serve_start with restart=true."
    return result

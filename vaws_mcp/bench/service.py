"""The service that a benchmark measures: started for it, waited for after a queue, or one that lives already."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.coordinator.asked import checked_environment
from vaws_mcp.coordinator.executions import FINAL_STATES, observe, submit, wait_until
from vaws_mcp.coordinator.receipt import launch_receipt
from vaws_mcp.coordinator.records import ExecutionRecord, find_execution, services
from vaws_mcp.coordinator.wanted import DeviceRequest, TreeUse, Wanted
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, CleanupFailed, NeedsInput, Refused
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.command import serve_argv
from vaws_mcp.serving.idle import idle_label
from vaws_mcp.serving.look import look_at
from vaws_mcp.serving.preflight import Surroundings, choose_port
from vaws_mcp.serving.ready import wait_ready
from vaws_mcp.serving.settings import ServeSettings, flag_value, without_flags
from vaws_mcp.serving.stop import Service, stop_service
from vaws_mcp.serving.target import Target
from vaws_mcp.taskstore.tasks import Task

SERVICE_NAME = "bench"
STARTED_BY = "started_by"
ABANDONED_S = 3600.0
TOKEN_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Seat:
    """What a service is given: devices, trees that keep still, and the reservation that holds them, if there is one.

    ``idle_s`` ends a service that nobody asks about for so long, so that one that waited in a queue is not forgotten.
    ``receipt`` are facts about sources and versions for the record of the launch.
    """

    devices: DeviceRequest | None = None
    trees: tuple[TreeUse, ...] = ()
    reservation: str | None = None
    idle_s: float | None = None
    receipt: Mapping[str, Any] = field(default_factory=dict[str, Any])


def wanted_devices(settings: BenchSettings, found: Surroundings) -> DeviceRequest | None:
    """Return the devices that a service of these settings needs on its endpoint; None when it needs none."""
    if settings.no_devices or settings.devices is not None:
        return settings.devices
    return DeviceRequest(count=settings.serve.devices_needed()) if found.npus else None


async def receipt_of(task: Task, endpoint: Endpoint, settings: ServeSettings) -> dict[str, Any]:
    """Return sources, versions and the digest of the environment, as the record of a launch keeps them."""
    return await launch_receipt(task, endpoint, checked_environment(settings.env))


async def started(ctx: Context, task: Task, endpoint: Endpoint, settings: ServeSettings, seat: Seat) -> Service:
    """Start a service and wait for its first token. One that does not become ready is stopped again.

    Raises: Failure of the start, with ``log_tail``; CleanupFailed when stopping it failed too.
    """
    return await became_ready(ctx, task, endpoint, settings, await submitted(ctx, task, endpoint, settings, seat))


async def submitted(
    ctx: Context, task: Task, endpoint: Endpoint, settings: ServeSettings, seat: Seat
) -> ExecutionRecord:
    """Submit a service without waiting for it.

    Raises: Failure of the port or of the endpoint.
    """
    port = await choose_port(endpoint, settings.port)
    labels = {"kind": "vllm-serve", "model": settings.model, **Target.of(settings, port).labels()}
    labels |= {STARTED_BY: "bench", **idle_label(seat.idle_s)}
    if ctx.run_dir is not None:
        labels["run"] = ctx.run_dir.name
    wanted = Wanted(
        command=serve_argv(settings, port),
        kind="serve",
        service=SERVICE_NAME,
        cwd=endpoint.config.workdir,
        env=checked_environment(settings.env),
        env_spec=endpoint.env_spec(),
        ports=[port],
        devices=seat.devices,
        trees=seat.trees,
        reservation=seat.reservation,
        idle_s=seat.idle_s,
        receipt=dict(seat.receipt),
        labels=labels,
    )
    return await submit(task, endpoint, wanted)


async def became_ready(
    ctx: Context, task: Task, endpoint: Endpoint, settings: ServeSettings, record: ExecutionRecord
) -> Service:
    """Wait until a service gave its first token. One that does not become ready is stopped.

    Raises: Failure of the start, with ``log_tail``; CleanupFailed when stopping it failed too.
    """
    begin, port = time.monotonic(), int(record.labels["port"])
    try:
        phases = await wait_ready(ctx, endpoint, record, settings, port)
    except BaseException as error:
        await stop_service(ctx, task, endpoint, record, error)
        raise
    return Service(record, settings, port, round(time.monotonic() - begin, 3), phases, record.command)


async def left_queue(ctx: Context, task: Task, endpoint: Endpoint, record: ExecutionRecord, wait_s: float) -> bool:
    """Wait at most so long until a service is no longer queued; tell whether it is out.

    Raises: Failure of the endpoint, after which the service is stopped.
    """
    try:
        status = await wait_until(ctx, endpoint, record, "running", wait_s)
    except BaseException as error:
        await stop_service(ctx, task, endpoint, record, error)
        raise
    return status["state"] != "queued"


def named_service(task: Task, execution_id: str | None, service: str | None) -> ExecutionRecord:
    """Return the record of a service of the task, by its execution or by its name.

    Raises: NeedsInput when there is none; Refused when it is another kind of execution.
    """
    named = execution_id or services(task.directory).get(service or "")
    record = find_execution(task.directory, named) if named else None
    if record is None:
        raise NeedsInput(
            "service_unknown",
            f"task {task.task_id} has no service {execution_id or service}",
            hint="serve_status names the services of a task; serve_start starts one.",
        )
    if Target.recorded(record) is None:
        raise Refused(
            "not_a_service",
            f"{record.execution_id} is no vLLM service but a {record.kind}",
            hint="Give the execution_id of a service.",
        )
    return record


def is_ours(record: ExecutionRecord) -> bool:
    """Tell whether a benchmark has started a service, and so has to stop it."""
    return record.labels.get(STARTED_BY) == "bench"


def of_service(settings: BenchSettings, record: ExecutionRecord) -> BenchSettings:
    """Return the settings with the address and name of a service that lives already."""
    labels = record.labels
    serve = replace(
        settings.serve,
        port=int(labels["port"]),
        host=labels.get("host", settings.serve.host),
        served_model_name=labels["served_model_name"],
    )
    return replace(settings, serve=serve)


def as_launched(config: Mapping[str, Any], record: ExecutionRecord) -> dict[str, Any]:
    """Return what the service that was named was launched with, in place of what this call says about it. Pure.

    Returns nothing when its record does not tell.
    """
    words = tuple(record.command)
    if "serve" not in words[:-2]:
        return {}
    words = words[words.index("serve") + 2 :]
    sizes = {"tp": "--tensor-parallel-size", "dp": "--data-parallel-size"}
    given = {name: flag_value(words, (flag,)) for name, flag in sizes.items()}
    found: dict[str, Any] = {name: int(size) if size and size.isdecimal() else None for name, size in given.items()}
    found["serve_args"] = list(without_flags(words, ("--host", "--port", "--served-model-name", *sizes.values())))
    devices = [str(device["logic"]) for device in record.status.get("devices") or []]
    found["devices"] = {"ids": devices} if devices else None
    return {name: value for name, value in found.items() if name in config}


async def live_service(endpoint: Endpoint, record: ExecutionRecord, settings: ServeSettings) -> Service:
    """Return a service that lives, once health, model list and a first token have been seen. It is not changed.

    Raises: Blocked ``service_not_ready`` that says what is missing; Failure of the endpoint.
    """
    status: dict[str, Any] = await observe(endpoint, record)
    port = int(record.labels["port"])
    missing: str | None = f"it is {status['state']}"
    begin = time.monotonic()
    if status["state"] not in (*FINAL_STATES, "stopping", "queued"):
        missing = (await look_at(endpoint, status, Target.of(settings, port), TOKEN_TIMEOUT_S)).missing
    if missing is not None:
        raise Blocked(
            "service_not_ready",
            f"service {record.name} ({record.execution_id}) cannot be measured: {missing}",
            layer="remote_workload",
            hint="serve_status looks at it, serve_logs shows why.",
            retry_safe=True,
            phase="attach",
        )
    return Service(record, settings, port, round(time.monotonic() - begin, 3), {}, record.command)


async def stopped_or_why(ctx: Context, task: Task, endpoint: Endpoint, record: ExecutionRecord) -> str | None:
    """Stop a service, and once more when that fails; return why it is not stopped, or None. Metrics outlive both."""
    try:
        await stop_service(ctx, task, endpoint, record)
    except CleanupFailed as first:
        try:
            await stop_service(ctx, task, endpoint, record, first)
        except CleanupFailed as failure:
            return failure.message
    return None

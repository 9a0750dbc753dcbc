"""bench_run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaws_mcp.bench.measure import Launch, Place, measure, prepare_place, save_launch, shown, watched_over
from vaws_mcp.bench.models import BenchRequest, BenchRunRequest, BenchRunResult
from vaws_mcp.bench.nightly import Reference, settings_of
from vaws_mcp.bench.service import (
    ABANDONED_S,
    Seat,
    as_launched,
    became_ready,
    is_ours,
    left_queue,
    live_service,
    named_service,
    of_service,
    receipt_of,
    stopped_or_why,
    submitted,
    wanted_devices,
)
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.bench.summary import MeasuredState, kept_metrics, save_summary
from vaws_mcp.coordinator.queueing import queue_sentence
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.coordinator.wanted import TreeUse
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, Failure, NeedsInput, Refused
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.registry import present
from vaws_mcp.runs.launch import create_run
from vaws_mcp.runs.records import find_run
from vaws_mcp.serving.preflight import check_endpoint
from vaws_mcp.serving.stop import Service, stop_service
from vaws_mcp.source.git import git_text
from vaws_mcp.source.operations import sync_bound
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import Task, require_task, timestamp

RUN_KIND = "benchmark/runs"


def run_directory(ctx: Context, task: Task, operation: str, request: BenchRequest) -> Path:
    """Return the directory of the present run; a plain Python call makes one."""
    if ctx.run_dir is not None:
        return ctx.run_dir
    return create_run(task, RUN_KIND, operation, request.model_dump(mode="json", exclude_unset=True)).path


def check_settings(request: BenchRequest, ctx: Context) -> BenchSettings:
    """Refuse what can be seen to be wrong before anything is contacted, and return the settings as far as known.

    Raises: Refused.
    """
    if request.refer_nightly is not None:
        Reference.of(request.refer_nightly)
    return BenchSettings.of(request, ctx.state_dir)


@dataclass(frozen=True)
class _Bench:
    """One call: where, what, and the service that was named, if any."""

    task: Task
    endpoint: Endpoint
    request: BenchRunRequest
    settings: BenchSettings
    named: ExecutionRecord | None

    @property
    def ours(self) -> bool:
        """Whether the service is stopped at the end."""
        return self.named is None or is_ours(self.named)


def _check(request: BenchRunRequest, ctx: Context) -> None:
    if request.execution_id is not None and request.service is not None:
        raise Refused("argument_invalid", "give execution_id or service, not both", hint="One of them names a service.")
    if not request.model and not request.attaches:
        raise Refused("argument_invalid", "bench_run: model is missing", hint="Correct the arguments.")
    check_settings(request, ctx)


@operation(
    "bench_run",
    title="Benchmark one state",
    effect="write",
    timeout_s=None,
    run_kind=RUN_KIND,
    check_with=_check,
)
async def bench_run(request: BenchRunRequest, ctx: Context) -> BenchRunResult:
    """Serve a model with the code as it is on the endpoint, measure it with `vllm bench serve`, and stop the service.

    With `service` or `execution_id` a live service is measured instead, and never stopped. Local trees that are bound
    to the task are brought to the endpoint first, unless `skip_parity`. When the NPUs are in use the answer is
    `queued`: the same call with its execution_id goes on. Success means that every request was completed and tokens
    were produced; exit code 0 alone proves nothing. To compare git states use bench_compare.
    """
    task = require_task(ctx, request.context_file, "bench_run")
    bench = await _bench(ctx, task, request)
    _warn_of_unused(ctx, bench.settings)
    _warn_of_other_settings(ctx, bench)
    run_dir = run_directory(ctx, task, "bench_run", bench.request)
    record = bench.named or await _submit(ctx, bench)
    waits = bench.ours and not await left_queue(ctx, task, bench.endpoint, record, request.queue_wait)
    if waits:
        return _queued(bench, record)
    launch = Launch("run")
    ctx.steps_total = bench.settings.runs + (2 if bench.ours else 1)
    try:
        warning = await _measured(ctx, bench, record, run_dir, launch)
    except Failure as failure:
        raise failure.carrying(
            task_id=task.task_id,
            model=bench.request.model,
            execution_id=record.execution_id,
            per_run=launch.per_run,
            result_paths=launch.paths,
        ) from None
    result = _result(bench, record, launch, save_launch(run_dir, launch), warning)
    result.code = await _code(ctx, bench, record)
    sha, subject, found = result.code["sha"], result.code["subject"], kept_metrics(result.metrics)
    state = MeasuredState(label="run", case="default", sha=sha, subject=subject, metrics=found)
    save_summary(run_dir, bench.request.model, [state], ended_at=timestamp(), simulated=bench.endpoint.simulated)
    return result


async def _bench(ctx: Context, task: Task, request: BenchRunRequest) -> _Bench:
    """Find out where to measure what. A service that is named brings its endpoint, its model and its address."""
    if not request.attaches:
        endpoint = await reach(ctx, request)
        return _Bench(task, endpoint, request, await settings_of(ctx, endpoint, request), None)
    named = named_service(task, request.execution_id, request.service)
    _require_unclaimed(ctx, named)
    model = named.labels.get("model") or request.model
    if request.model not in ("", model):
        raise Refused(
            "service_other_model",
            f"service {named.name} serves {model}, not {request.model}",
            hint="Leave model out, or name another service.",
        )
    endpoint = await connected(ctx, present(ctx.state_dir, named.endpoint))
    request = request.model_copy(update={"model": model})
    return _Bench(task, endpoint, request, of_service(await settings_of(ctx, endpoint, request), named), named)


def _require_unclaimed(ctx: Context, named: ExecutionRecord) -> None:
    """Refuse the service of a benchmark that is under way: two would load it at once, and the first to end stops it.

    Raises: Blocked ``run_live``.
    """
    own = ctx.run_dir.name if ctx.run_dir is not None else None
    run_id = named.labels.get("run")
    if not is_ours(named) or run_id in (None, own):
        return
    try:
        live = find_run(ctx.state_dir, run_id).state() in ("starting", "running")
    except NeedsInput:
        return  # the run's record was deleted, so nobody measures
    if live:
        raise Blocked(
            "run_live",
            f"{named.name} ({named.execution_id}) is being measured by {run_id}",
            layer="local",
            hint=f"Wait for it: run_wait with run_id={run_id}.",
            retry_safe=True,
            phase="attach",
        )


async def _submit(ctx: Context, bench: _Bench) -> ExecutionRecord:
    """Bring bound local trees over and submit the service."""
    found = await check_endpoint(bench.endpoint, bench.settings.serve)
    if not bench.request.skip_parity:
        await sync_bound(ctx, bench.task, bench.endpoint)
    trees = tuple(TreeUse(path) for path in found.trees)
    idle_s = max(ABANDONED_S, 2 * bench.settings.timeout_s)
    receipt = await receipt_of(bench.task, bench.endpoint, bench.settings.serve)
    seat = Seat(wanted_devices(bench.settings, found), trees, idle_s=idle_s, receipt=receipt)
    return await submitted(ctx, bench.task, bench.endpoint, bench.settings.serve, seat)


async def _measured(ctx: Context, bench: _Bench, record: ExecutionRecord, run_dir: Path, launch: Launch) -> str | None:
    """Wait for the service, measure it, and stop it if it is ours; return why stopping failed, or None.

    Raises: Failure of the start, of an iteration; CleanupFailed when that failed and stopping too.
    """
    task, endpoint, settings = bench.task, bench.endpoint, bench.settings
    if bench.ours:
        service = await became_ready(ctx, task, endpoint, settings.serve, record)
    else:
        service = await live_service(endpoint, record, settings.serve)
    await ctx.advance("ready", f"run: first token after {service.ready_s:.1f} s", state=launch.label)
    place = await _place(ctx, bench, service, run_dir)
    async with watched_over(ctx, place, service, ours=bench.ours):
        await measure(ctx, place, settings, service, launch)
    if not bench.ours:
        return None
    why = await stopped_or_why(ctx, task, endpoint, service.record)
    await ctx.advance("stopped", f"run: {why or 'stopped, everything it held is free'}", state=launch.label)
    return why


async def _code(ctx: Context, bench: _Bench, record: ExecutionRecord) -> dict[str, str | None]:
    """Return commit and subject that the service was started from; null when there is no tree to ask.

    The receipt of its launch says so: the tree may have moved on under a service that lives.
    """
    repo = bench.endpoint.config.vllm_ascend_repo
    tree: dict[str, Any] = ((record.receipt.get("endpoint") or {}).get("repos") or {}).get("vllm_ascend") or {}
    try:
        said = await git_text(bench.endpoint, repo, "log", "-1", "--format=%H %s", tree.get("commit") or "HEAD")
    except Failure:
        return {"sha": tree.get("commit"), "subject": None}
    sha, _, subject = said.partition(" ")
    if tree.get("dirty"):
        ctx.warn(f"vllm-ascend had uncommitted changes on top of {sha[:12]} when the service was started")
        subject = f"{subject} (with uncommitted changes)"
    return {"sha": sha, "subject": subject}


async def _place(ctx: Context, bench: _Bench, service: Service, run_dir: Path) -> Place:
    """Make the directories for results; a service of ours does not survive a failure of that."""
    try:
        return await prepare_place(bench.task, bench.endpoint, run_dir, bench.settings.serve.env)
    except BaseException as error:
        if bench.ours:
            await stop_service(ctx, bench.task, bench.endpoint, service.record, error)
        raise


def _queued(bench: _Bench, record: ExecutionRecord) -> BenchRunResult:
    sentence = queue_sentence(record.status) or f"{record.name} is queued"
    return BenchRunResult(
        status="queued",
        summary=sentence,
        hint=f"Repeat this call with execution_id={record.execution_id} to go on waiting; nothing is submitted twice. "
        f"vaws_execution with action=stop gives up.",
        execution_id=record.execution_id,
        queue=record.status.get("queue"),
        **_shared(bench),
        metrics={},
        aggregated={"count": 0},
        per_run=[],
        launch={"execution_id": record.execution_id},
    )


def _shared(bench: _Bench) -> dict[str, Any]:
    settings = bench.settings
    config = settings.as_config()
    launched = as_launched(config, bench.named) if bench.named else {}
    return {
        "task_id": bench.task.task_id,
        "model": bench.request.model,
        "started_by_this_run": bench.ours,
        "config": {**config, **launched},
        "runs": settings.runs,
        "warmup_runs": settings.warmup_runs,
        "config_origin": {**settings.origin, **dict.fromkeys(launched, "service")},
        "preset": settings.preset,
        "nightly": settings.nightly,
    }


def _result(bench: _Bench, record: ExecutionRecord, launch: Launch, path: Path, warning: str | None) -> BenchRunResult:
    means = launch.means()
    name = bench.settings.serve.served_model_name
    result = BenchRunResult(
        summary=f"{name}: {shown(means)} over {len(launch.counted)} counted runs",
        execution_id=record.execution_id,
        **_shared(bench),
        metrics=means,
        aggregated=launch.aggregated(),
        per_run=launch.per_run,
        launch=launch.service,
        result_paths=[str(path), *launch.paths],
        refs={"launch": str(path)},
    )
    if warning is not None:
        result.status, result.outcome, result.cleanup_warning = "cleanup_failed", "failed", warning
        result.summary += f"; but the service could not be stopped: {warning}"
        result.hint = "task_finish tries to stop it again."
    return result


def _warn_of_other_settings(ctx: Context, bench: _Bench) -> None:
    """Name the arguments that say something else than the service that was named was launched with."""
    config = bench.settings.as_config()
    launched = as_launched(config, bench.named) if bench.named else {}
    explicit = [name for name in launched if bench.settings.origin.get(name) == "explicit"]
    if other := [name for name in explicit if config[name] != launched[name]]:
        ctx.warn(f"{', '.join(other)} are not those of the service, which stays as it was launched")


def _warn_of_unused(ctx: Context, settings: BenchSettings) -> None:
    """Name what a preset says and only a comparison carries out."""
    said = {
        "vllm_ref": settings.vllm_ref,
        "fixed_request_dataset": settings.fixed_dataset,
        "bench_request_counts": settings.request_counts,
    }
    unused = [name for name, value in said.items() if value]
    if unused:
        ctx.warn(f"{', '.join(unused)} of preset {settings.preset} are for bench_compare and are not used here")

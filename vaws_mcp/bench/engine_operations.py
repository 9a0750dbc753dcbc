"""bench_latency, bench_throughput."""

import shlex
from pathlib import Path

from vaws_mcp.bench.engine_command import AnyEngineRequest, EngineSettings
from vaws_mcp.bench.engine_models import BenchLatencyRequest, BenchThroughputRequest, EngineBenchResult
from vaws_mcp.bench.engine_run import EngineRun, run_engine
from vaws_mcp.bench.measure import prepare_place
from vaws_mcp.bench.operations import RUN_KIND
from vaws_mcp.bench.parse_engine import LatencyResult, engine_metrics
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.operation import operation
from vaws_mcp.runs.launch import create_run
from vaws_mcp.serving.preflight import check_endpoint
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import Task, require_task


@operation(
    "bench_latency",
    title="Measure the latency of an engine",
    effect="write",
    timeout_s=None,
    run_kind=RUN_KIND,
    check=EngineSettings.of,
)
async def bench_latency(request: BenchLatencyRequest, ctx: Context) -> EngineBenchResult:
    """Measure with `vllm bench latency` how long an engine takes for whole batches; no server is involved.

    It is given its NPUs like a service and waits in the queue for them. P50, P90 and P99 are of the time from the
    prompts of a batch to its last token.
    """
    return await _bench(request, ctx, "bench_latency")


@operation(
    "bench_throughput",
    title="Measure the throughput of an engine",
    effect="write",
    timeout_s=None,
    run_kind=RUN_KIND,
    check=EngineSettings.of,
)
async def bench_throughput(request: BenchThroughputRequest, ctx: Context) -> EngineBenchResult:
    """Measure with `vllm bench throughput` how many tokens an engine makes when all requests are there at once.

    No server is involved. It is given its NPUs like a service and waits in the queue for them. Output tokens per
    second come from the console, since the result file holds only the total.
    """
    return await _bench(request, ctx, "bench_throughput")


async def _bench(request: AnyEngineRequest, ctx: Context, name: str) -> EngineBenchResult:
    settings = EngineSettings.of(request)
    task = require_task(ctx, request.context_file, name)
    endpoint = await reach(ctx, request, command=shlex.join(settings.argv("result.json")))
    found = await check_endpoint(endpoint, settings.engine)
    run_dir = ctx.run_dir or _new_run(task, name, request)
    place = await prepare_place(task, endpoint, run_dir)
    await ctx.progress("bench", f"vllm bench {settings.kind} on {endpoint.config.address}")
    try:
        run = await run_engine(ctx, place, settings, found)
    except Failure as failure:
        raise failure.carrying(task_id=task.task_id, model=request.model, kind=settings.kind) from None
    return _answer(ctx, task, settings, run)


def _new_run(task: Task, name: str, request: AnyEngineRequest) -> Path:
    return create_run(task, RUN_KIND, name, request.model_dump(mode="json", exclude_unset=True)).path


def _answer(ctx: Context, task: Task, settings: EngineSettings, run: EngineRun) -> EngineBenchResult:
    result, metrics = run.result, engine_metrics(run.result)
    output = metrics["output_throughput"]
    if output is None:
        ctx.warn("The console does not state the output tokens per second, and the result file holds only the total.")
    tokens = f", {output:.0f} output tok/s" if output is not None else ""
    if isinstance(result, LatencyResult):
        said = f"P50 {_seconds(result.p50_latency_s)}, P99 {_seconds(result.p99_latency_s)} a batch{tokens}"
    else:
        said = f"{result.request_throughput:.2f} requests/s{tokens}"
    return EngineBenchResult(
        summary=f"{settings.engine.served_model_name}: {said}",
        task_id=task.task_id,
        model=settings.engine.model,
        kind=settings.kind,
        metrics=metrics,
        details=result.model_dump(exclude=set(metrics), exclude_none=True),
        config=settings.as_config(),
        execution_id=run.record.execution_id,
        command=run.record.command,
        devices=run.devices,
        duration_s=run.duration_s,
        client_version=run.console.version,
        result_paths=[str(path) for path in run.paths],
        refs={"bench_log": str(run.paths[-1])},
    )


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f} s"

"""bench_run."""

from pathlib import Path

from vaws_mcp.bench.measure import Launch, measure_launch, prepare_place, save_launch, shown, steps_of
from vaws_mcp.bench.models import BenchRequest, BenchRunRequest, BenchRunResult
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.operation import operation
from vaws_mcp.runs.launch import create_run
from vaws_mcp.serving.preflight import check_endpoint
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import Task, require_task

RUN_KIND = "benchmark/runs"


def run_directory(ctx: Context, task: Task, operation: str, request: BenchRequest) -> Path:
    """Return the directory of the present run; a plain Python call makes one."""
    if ctx.run_dir is not None:
        return ctx.run_dir
    return create_run(task, RUN_KIND, operation, request.model_dump(mode="json", exclude_unset=True)).path


@operation(
    "bench_run", title="Benchmark one state", effect="write", timeout_s=None, run_kind=RUN_KIND, check=BenchSettings.of
)
async def bench_run(request: BenchRunRequest, ctx: Context) -> BenchRunResult:
    """Serve a model with the code as it is on the endpoint, measure it with `vllm bench serve`, and stop the service.

    Success means that every request was completed and tokens were produced; exit code 0 alone proves nothing. To
    compare git states use bench_compare.
    """
    settings = BenchSettings.of(request)
    task = require_task(ctx, request.context_file, "bench_run")
    endpoint = await reach(ctx, request)
    await check_endpoint(endpoint, settings.serve)
    run_dir = run_directory(ctx, task, "bench_run", request)
    place = await prepare_place(task, endpoint, run_dir)
    launch = Launch("run")
    ctx.steps_total = steps_of(settings)
    try:
        await measure_launch(ctx, place, settings, launch)
    except Failure as failure:
        raise failure.carrying(
            task_id=task.task_id, model=request.model, per_run=launch.per_run, result_paths=launch.paths
        ) from None
    path = save_launch(run_dir, launch)
    means = launch.means()
    return BenchRunResult(
        summary=f"{settings.serve.served_model_name}: {shown(means)} over {len(launch.counted)} counted runs",
        task_id=task.task_id,
        model=request.model,
        metrics=means,
        config=settings.as_config(),
        runs=settings.runs,
        warmup_runs=settings.warmup_runs,
        aggregated=launch.aggregated(),
        per_run=launch.per_run,
        launch=launch.service,
        result_paths=[str(path), *launch.paths],
        refs={"launch": str(path)},
    )

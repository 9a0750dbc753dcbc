"""bench_compare."""

from functools import partial
from pathlib import Path

import anyio.to_thread

from vaws_mcp.bench.measure import steps_of
from vaws_mcp.bench.operations import RUN_KIND, run_directory
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.comparison.compare import Plan, Progress, measure_states, resolve_states
from vaws_mcp.comparison.deltas import compare
from vaws_mcp.comparison.models import BenchCompareRequest, BenchCompareResult, ComparisonRow
from vaws_mcp.comparison.view import report_of
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.render.report import write_report
from vaws_mcp.serving.preflight import check_endpoint
from vaws_mcp.source.lock import tree_held
from vaws_mcp.source.refs import check_ref
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import require_task

ONE_LAUNCH = (
    "each state was launched once: the spread is that of iterations, and a difference of a few percent "
    "can be launch-to-launch variation or drift"
)


def _check(request: BenchCompareRequest) -> None:
    """Refuse what can be seen to be wrong before anything is contacted.

    Raises: Refused.
    """
    BenchSettings.of(request)
    states = request.states()
    if len(states) < 2:
        raise Refused(
            "one_state", "bench_compare needs at least two states", hint="To measure one state, call bench_run."
        )
    for state in states:
        check_ref(state.ref)


@operation("bench_compare", title="Compare git states", effect="write", timeout_s=None, run_kind=RUN_KIND, check=_check)
async def bench_compare(request: BenchCompareRequest, ctx: Context) -> BenchCompareResult:
    """Compare git states of vllm-ascend by benchmark: for each, check it out, serve the model, measure, stop.

    All states use identical arguments; only the checked-out code differs. The tree is put back at the end. The first
    state is the reference of every delta. For one state use bench_run.
    """
    settings = BenchSettings.of(request)
    states = request.states()
    task = require_task(ctx, request.context_file, "bench_compare")
    endpoint = await reach(ctx, request)
    await check_endpoint(endpoint, settings.serve)
    run_dir = run_directory(ctx, task, "bench_compare", request)
    repo = endpoint.config.vllm_ascend_repo
    done = Progress()
    # Held from before the first look: what is put back at the end must not be what another run had checked out.
    with tree_held(ctx.state_dir, endpoint.config, repo, run_dir.name):
        before, commits = await resolve_states(endpoint, states)
        plan = Plan(task, endpoint, repo, before, commits, settings)
        ctx.steps_total = len(states) * steps_of(settings) + 1
        await measure_states(ctx, plan, run_dir, done)
    ctx.warn(ONE_LAUNCH)
    rows = compare(done.launches)
    result = BenchCompareResult(
        summary=_summary(rows),
        task_id=task.task_id,
        model=request.model,
        comparison=rows,
        state_results=done.results,
        config={**settings.as_config(), "order": "sequential", "rounds": 1},
        result_paths=done.paths,
    )
    await _report(ctx, result, done, endpoint, run_dir)
    return result


def _summary(rows: list[ComparisonRow]) -> str:
    """Say the deltas of all states against the first."""
    parts = [
        f"{row.state} against {rows[0].state}: TPOT {_pct(row.delta_tpot_pct_vs_first)}, "
        f"throughput {_pct(row.delta_output_throughput_pct_vs_first)}"
        for row in rows[1:]
    ]
    return "; ".join(parts)


def _pct(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+.1f} %"


async def _report(ctx: Context, result: BenchCompareResult, done: Progress, endpoint: Endpoint, run_dir: Path) -> None:
    """Write the report beside the results."""
    await ctx.progress("report", "writing the report")
    view = report_of(result, done.launches, endpoint, ctx.warnings)
    paths = await anyio.to_thread.run_sync(partial(write_report, view, run_dir))
    await ctx.advance("done", result.summary)
    result.report_paths = {kind: str(path) for kind, path in paths.items()}

"""bench_compare."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio.to_thread

from vaws_mcp.bench.operations import RUN_KIND, run_directory
from vaws_mcp.bench.summary import MeasuredState, kept_metrics, save_summary
from vaws_mcp.comparison.asked import Asked
from vaws_mcp.comparison.asking import Reached, check_launches, reached
from vaws_mcp.comparison.compare import measure_all
from vaws_mcp.comparison.deltas import compare
from vaws_mcp.comparison.fixed_requests import kept
from vaws_mcp.comparison.models import BenchCompareRequest, BenchCompareResult, ComparisonRow, EffectRow
from vaws_mcp.comparison.planning import plan_of
from vaws_mcp.comparison.records import ComparisonRecord
from vaws_mcp.comparison.repeating import repeat_words
from vaws_mcp.comparison.resume import Earlier, clean_up_after, continued, mixed_set
from vaws_mcp.comparison.schedule import schedule
from vaws_mcp.comparison.states import by_state, means
from vaws_mcp.comparison.statistics import METRICS, changed_answers, effects_of, judged
from vaws_mcp.comparison.verdict import cannot_pass
from vaws_mcp.comparison.view import report_of
from vaws_mcp.comparison.work import Progress, Work
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.operation import operation
from vaws_mcp.numeric.effect import Effect
from vaws_mcp.presets.policies import Policy, load_policy
from vaws_mcp.render.report import write_report
from vaws_mcp.source.refs import check_ref
from vaws_mcp.taskstore.tasks import Task, require_task, timestamp

ONE_LAUNCH = (
    "each state was launched once: the spread is that of iterations, and a difference of a few percent "
    "can be launch-to-launch variation or drift"
)


def _check(request: BenchCompareRequest, ctx: Context) -> None:
    """Refuse what can be seen to be wrong before anything is contacted.

    Raises: Refused.
    """
    whole, _earlier = continued(request, "bench_compare", ctx.state_dir)
    check_launches(whole, ctx, "bench_compare")
    states = whole.states()
    if len(states) < 2:
        raise Refused(
            "one_state", "bench_compare needs at least two states", hint="To measure one state, call bench_run."
        )
    for state in states:
        check_ref(state.ref)
    if whole.policy is not None:
        load_policy(whole.policy)


def _only_looks(request: BenchCompareRequest) -> bool:
    return request.plan


@operation(
    "bench_compare",
    title="Compare git states",
    effect="write",
    timeout_s=None,
    run_kind=RUN_KIND,
    check_with=_check,
    at_once=_only_looks,
)
async def bench_compare(request: BenchCompareRequest, ctx: Context) -> BenchCompareResult:
    """Compare git states of vllm-ascend by benchmark: for each, check it out, serve the model, measure, stop.

    All states use identical arguments and devices; only the checked-out code differs. The tree is put back at the end.
    The first state is the reference of every delta. One launch a state shows a difference, several (`order`
    interleaved, `rounds` 4 or more) show how sure it is; `policy` adds a verdict. `plan` only says what would be done;
    `resume` goes on with a killed run. For one state use bench_run.
    """
    request, earlier = continued(request, "bench_compare", ctx.state_dir)
    request.require_whole("bench_compare")
    if request.plan:
        ctx.effect = "read"
    task = require_task(ctx, request.context_file, "bench_compare")
    policy = load_policy(request.policy) if request.policy else None
    for sentence in cannot_pass(policy, request.rounds, probe=request.accuracy_probe) if policy else ():
        ctx.warn(sentence)
    found = await reached(ctx, task, request)
    asked = _asked(task, found, earlier)
    if request.plan:
        return _planned(asked, await plan_of(ctx, asked))
    run_dir = run_directory(ctx, task, "bench_compare", request)
    if earlier is not None:
        await clean_up_after(ctx, task, earlier)
        if earlier.done:
            ctx.warn(mixed_set(earlier))
    ready = await measure_all(ctx, asked, run_dir)
    record, done, work = ready.record, ready.done, ready.work
    if record.rounds == 1:
        ctx.warn(ONE_LAUNCH)
    result = result_of(asked, record, done, policy)
    if (requests := kept(run_dir)) is not None:
        result.fixed_dataset = requests.as_json()
    for sentence in changed_answers(done.usable):
        ctx.warn(sentence)
    await _report(ctx, result, done, work)
    states = [
        MeasuredState(
            label=label,
            case=case,
            sha=work.states[label].sha,
            subject=work.states[label].subject,
            launches=len(own),
            metrics=kept_metrics(means(own)),
        )
        for label, case, own in by_state(done.usable)
    ]
    simulated = asked.endpoint.simulated
    save_summary(run_dir, request.model, states, ended_at=timestamp(), verdict=result.verdict, simulated=simulated)
    return result


def _asked(task: Task, found: Reached[BenchCompareRequest], earlier: Earlier | None) -> Asked:
    request, states = found.request, found.request.states()
    return Asked(
        task=task,
        endpoint=found.endpoint,
        request=request,
        states=states,
        launches=schedule([state.label for state in states], request.order, request.rounds),
        order=request.order,
        settings=found.settings,
        found=found.found,
        earlier=earlier,
    )


def _planned(asked: Asked, plan: dict[str, Any]) -> BenchCompareResult:
    launches, minutes = len(asked.launches), plan["estimated_minutes"]
    took = f"about {minutes} minutes" if minutes is not None else "for how long is not known yet"
    return BenchCompareResult(
        status="planned",
        summary=f"{launches} launches of {len(asked.states)} states, {took}; nothing was started",
        hint="The same call without plan carries it out.",
        task_id=asked.task.task_id,
        model=asked.request.model,
        comparison=[],
        state_results=[],
        plan=plan,
        **_shared(asked),
    )


def _shared(asked: Asked) -> dict[str, Any]:
    settings = asked.settings
    return {
        "config": {**settings.as_config(), "order": asked.order, "rounds": asked.request.rounds},
        "config_origin": settings.origin,
        "preset": settings.preset,
        "nightly": settings.nightly,
    }


def result_of(asked: Asked, record: ComparisonRecord, done: Progress, policy: Policy | None) -> BenchCompareResult:
    """Return the result of a comparison whose launches are all done."""
    launches = done.usable
    rows = compare(launches)
    metrics = [*METRICS, *(name for name in (policy.metrics if policy else {}) if name not in METRICS)]
    effects = effects_of(launches, metrics)
    result = BenchCompareResult(
        summary=summary_of(rows, effects),
        task_id=asked.task.task_id,
        model=asked.request.model,
        comparison=rows,
        effects=effects,
        state_results=done.states(),
        devices=[{"logic": logic} for logic in record.devices],
        patch_sha256=record.patch_sha256,
        vllm=record.vllm.facts() if record.vllm else None,
        receipt=record.receipt,
        repeat=repeat_words(asked.request, "bench-compare"),
        resumed_from=record.resumed_from,
        result_paths=done.paths,
        **_shared(asked),
    )
    if policy is not None:
        found = judged(policy.name, policy, launches)
        result.verdict, result.policy, result.judgements = found.verdict, found.policy, found.judgements
        result.summary = f"verdict {found.verdict} by policy {found.policy}: {result.summary}"
    return result


def summary_of(rows: Sequence[ComparisonRow], effects: Sequence[EffectRow]) -> str:
    """Say the deltas of all states against the first; with an interval it is the estimate that belongs to it."""
    known = {(row.state, row.case, row.metric): row.effect for row in effects}
    several = len({row.case for row in rows}) > 1
    parts: list[str] = []
    for row in rows:
        if row.state == rows[0].state:
            continue
        name = f"{row.state} against {rows[0].state}{f', {row.case}' if several else ''}"
        tpot = _change(known.get((row.state, row.case, METRICS[0])), row.delta_tpot_pct_vs_first)
        rate = _change(known.get((row.state, row.case, METRICS[1])), row.delta_output_throughput_pct_vs_first)
        parts.append(f"{name}: TPOT {tpot}, throughput {rate}")
    return "; ".join(parts)


def _change(effect: Effect | None, plain: float | None) -> str:
    """Say a change; the plain one still has the drift of the host in it, the estimate and its interval have not."""
    if effect is None or effect.low_pct is None or effect.high_pct is None:
        return _pct(plain)
    return f"{_pct(effect.pct)} (95 %: {effect.low_pct:+.1f} to {effect.high_pct:+.1f} %)"


def _pct(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+.1f} %"


async def _report(ctx: Context, result: BenchCompareResult, done: Progress, work: Work) -> None:
    """Write the report beside the results."""
    await ctx.progress("report", "writing the report")
    view = report_of(result, done.usable, work.endpoint, ctx.warnings)
    paths = await anyio.to_thread.run_sync(partial(write_report, view, work.run_dir))
    await ctx.advance("done", result.summary)
    result.report_paths = {kind: str(path) for kind, path in paths.items()}

"""One launch of a comparison: check the state out, start the service, measure every case, stop."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import anyio

from vaws_mcp.bench.measure import Launch, measure, served
from vaws_mcp.comparison.accuracy_probe import PROMPT, ask
from vaws_mcp.comparison.caches import compile_cache, reset_prefix_cache
from vaws_mcp.comparison.cases import Case
from vaws_mcp.comparison.datasets import ensure_requests, with_fixed_requests
from vaws_mcp.comparison.native_gate import pass_gate
from vaws_mcp.comparison.records import LaunchRecord, launch_stem, save_launch_record
from vaws_mcp.comparison.schedule import Planned
from vaws_mcp.comparison.states import save_state
from vaws_mcp.comparison.work import Progress, Seen, Work
from vaws_mcp.coordinator.stale import clean_around
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed, Failure
from vaws_mcp.serving.stop import Service
from vaws_mcp.serving.target import Target
from vaws_mcp.source.patching import patched
from vaws_mcp.source.records import FILE as TREE_FILE
from vaws_mcp.source.tree import checkout, require_at

NEW_PROCESS = "empty: a new process"


async def carry_out(ctx: Context, work: Work, planned: Planned, done: Progress) -> None:
    """Measure one launch. It is on disk when this returns or fails, and noted in ``done``.

    Raises: Failure of the checkout, the native gate, the start, an iteration, or the stop.
    """
    state = work.states[planned.label]
    turn = f"{state.label}, round {planned.round}" if planned.round > 1 else state.label
    if work.request.stale_cleanup:
        await clean_around(ctx, work.endpoint, f"before {turn}")
    await ctx.progress("checkout", f"{turn}: {state.sha[:12]} {state.subject}", state=state.label)
    who, held = work.run_dir.name, work.seat.reservation
    await checkout(work.endpoint, work.repo, state.sha, who=who, reservation=held)
    launches = [_launch(planned, turn, case, several=len(work.cases) > 1) for case in work.cases]
    seen = Seen()
    try:
        async with patched(ctx, work.endpoint, work.patch, work.run_dir / TREE_FILE) as applied:
            seen.patch_sha256 = applied.sha256 if applied else None
            await _serve_and_measure(ctx, work, launches, seen)
            await require_at(work.endpoint, work.repo, state.sha)
        if work.request.stale_cleanup:
            await clean_around(ctx, work.endpoint, f"after {turn}")
    except BaseException as error:
        _keep(work, planned, launches, seen, done, error)
        ctx.partial.update(done.fields())
        raise
    _keep(work, planned, launches, seen, done, None)
    ctx.partial.update(done.fields())
    if seen.foreign:
        ctx.warn(f"launch {planned.number} ({turn}) is contaminated: {'; '.join(seen.foreign[:3])}")


def _launch(planned: Planned, turn: str, case: Case, *, several: bool) -> Launch:
    title = f"{turn}, {case.name}" if several else turn
    return Launch(planned.label, title, launch_stem(planned.number, planned.label, case.name))


async def _serve_and_measure(ctx: Context, work: Work, launches: Sequence[Launch], seen: Seen) -> None:
    label = launches[0].label
    await _look_before(ctx, work, label, seen)
    async with served(ctx, work.place, work.settings, work.seat, label) as service:
        if work.request.accuracy_probe:
            await _probe(ctx, work, service, launches[0].title, seen)
        await ensure_requests(ctx, work, service)
        resets: dict[str, str] = {}
        target = Target.of(service.settings, service.port)
        for number, (case, launch) in enumerate(zip(with_fixed_requests(work), launches, strict=True)):
            resets[case.name] = await reset_prefix_cache(work.endpoint, target) if number else NEW_PROCESS
            seen.caches["prefix"] = resets
            await measure(ctx, work.place, replace(work.settings, bench_args=case.bench_args), service, launch)
        await seen.neighbours(work, service)


async def _look_before(ctx: Context, work: Work, label: str, seen: Seen) -> None:
    """Look at native inputs, compiled graphs and neighbours, all at once: none of them changes anything.

    Raises: Blocked of the native gate; Failure of the endpoint.
    """
    failed: list[Failure] = []

    async def guarded(look: Callable[[], Awaitable[None]]) -> None:
        try:
            await look()
        except Failure as failure:  # leaves the group by itself, not wrapped
            failed.append(failure)

    async def native() -> None:
        allowed = work.request.allow_stale_native
        seen.native = await pass_gate(ctx, work.endpoint, work.repo, work.run_dir, label, allow_stale=allowed)

    async def graphs() -> None:
        seen.caches["compile"] = await compile_cache(work.endpoint, work.settings.serve)

    async def neighbours() -> None:
        await seen.neighbours(work, None)

    async with anyio.create_task_group() as group:
        for look in (native, graphs, neighbours):
            group.start_soon(guarded, look)
    if failed:
        raise failed[0]


async def _probe(ctx: Context, work: Work, service: Service, title: str, seen: Seen) -> None:
    await ctx.progress("accuracy_probe", f"{title}: asking for one completion at temperature 0")
    target = Target.of(service.settings, service.port)
    prompt = work.request.accuracy_prompt or PROMPT
    seen.probe = await ask(work.endpoint, target, prompt, work.request.accuracy_max_tokens)


def _keep(
    work: Work,
    planned: Planned,
    launches: Sequence[Launch],
    seen: Seen,
    done: Progress,
    error: BaseException | None,
) -> None:
    """Write a launch that has finished or failed, one file a case, and note it."""
    status = "ok" if error is None else error.status if isinstance(error, Failure) else "interrupted"
    if isinstance(error, CleanupFailed) and any(len(launch.per_run) < work.settings.runs for launch in launches):
        status = "failed"  # the cleaning up failed after something else had
    for case, launch in zip(work.cases, launches, strict=True):
        record = LaunchRecord(
            run_id=work.run_dir.name,
            number=planned.number,
            round=planned.round,
            state=work.states[planned.label],
            case=case.name,
            status=status,
            error=error.message if isinstance(error, Failure) else None,
            launch=launch.service,
            per_run=launch.per_run,
            aggregated=launch.aggregated(),
            result_paths=launch.paths,
            **seen.facts(),
        )
        done.paths += [str(save_launch_record(work.run_dir, record)), *launch.paths]
        done.launches.append(record)
    summary = str(save_state(work.run_dir, [record for record in done.launches if record.label == planned.label]))
    if summary not in done.paths:
        done.paths.append(summary)

"""bench_bisect."""

from dataclasses import dataclass, field
from typing import Any

from vaws_mcp.bench.operations import RUN_KIND, run_directory
from vaws_mcp.comparison.asked import Asked, Pinned, pinned
from vaws_mcp.comparison.asking import check_launches, reached
from vaws_mcp.comparison.bisect import Judged, Search, direction_of, judge, metric_of, regression_pct
from vaws_mcp.comparison.bisect_models import BenchBisectRequest, BenchBisectResult, BisectStep
from vaws_mcp.comparison.compare import Prepared, launch_steps, prepared
from vaws_mcp.comparison.launching import carry_out
from vaws_mcp.comparison.models import State
from vaws_mcp.comparison.records import LaunchRecord, PinnedState
from vaws_mcp.comparison.resume import clean_up_after, continued, mixed_set
from vaws_mcp.comparison.schedule import Planned, schedule
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed, Failure
from vaws_mcp.core.operation import operation
from vaws_mcp.source.git import git_text
from vaws_mcp.source.refs import check_ref
from vaws_mcp.taskstore.tasks import require_task

GOOD, BAD = "good", "bad"
MOST_COMMITS = 4096
GATE_CODES = frozenset({"native_inputs_differ", "native_inputs_unverified"})


def _check(request: BenchBisectRequest, ctx: Context) -> None:
    whole, _earlier = continued(request, "bench_bisect", ctx.state_dir)
    check_launches(whole, ctx, "bench_bisect")
    check_ref(whole.good)
    check_ref(whole.bad)


@dataclass
class _Hunt:
    """A bisection under way."""

    ready: Prepared
    search: Search
    subjects: dict[str, str]
    request: BenchBisectRequest
    asked: Asked
    numbers: int = 0
    values: dict[str, float | None] = field(default_factory=dict[str, float | None])
    steps: list[BisectStep] = field(default_factory=list[BisectStep])

    def launches(self, label: str) -> list[LaunchRecord]:
        """Return the usable launches of a label, in its first case."""
        case = self.asked.cases()[0].name
        return [record for record in self.ready.done.usable if record.label == label and record.case == case]


@operation(
    "bench_bisect",
    title="Find the commit of a regression",
    effect="write",
    timeout_s=None,
    run_kind=RUN_KIND,
    check_with=_check,
)
async def bench_bisect(request: BenchBisectRequest, ctx: Context) -> BenchBisectResult:
    """Narrow a regression between two commits of vllm-ascend down to the commit that brought it, by measuring.

    Both ends are measured first: when `bad` is not worse than `good` by `threshold` percent, there is nothing to find.
    Then the commit in the middle is measured, again and again. Commits with other native inputs than `good` are
    skipped, unless `allow_stale_native`. A killed run is gone on with by `resume`.
    """
    request, earlier = continued(request, "bench_bisect", ctx.state_dir)
    request.require_whole("bench_bisect")
    task = require_task(ctx, request.context_file, "bench_bisect")
    found = await reached(ctx, task, request)
    states = [State(label=GOOD, ref=request.good), State(label=BAD, ref=request.bad)]
    ends = schedule([GOOD, BAD], "interleaved", request.rounds)
    asked = Asked(
        task, found.endpoint, found.request, states, ends, "interleaved", found.settings, found.found, earlier
    )
    run_dir = run_directory(ctx, task, "bench_bisect", request)
    if earlier is not None:
        await clean_up_after(ctx, task, earlier)
        if earlier.done:
            ctx.warn(mixed_set(earlier))
    fixed = await pinned(ctx, asked)
    commits, subjects = await _between(asked, fixed)
    ctx.steps_total = launch_steps(asked) * request.rounds * (2 + max(1, len(commits)).bit_length()) + 1
    fixed = Pinned(fixed.states, fixed.vllm, tuple(commits))
    async with prepared(ctx, asked, run_dir, fixed) as ready:
        hunt = _Hunt(ready, Search(commits, {commits[-1]: "bad"}), subjects, request, asked)
        await _hunt(ctx, hunt, ends)
    return _result(hunt)


async def _between(asked: Asked, fixed: Pinned) -> tuple[list[str], dict[str, str]]:
    """Return the commits after good up to bad, oldest first, with their subjects.

    Raises: Failure ``not_an_ancestor`` or ``too_many_commits``.
    """
    good, bad = fixed.states
    span = f"{good.sha}..{bad.sha}"
    words = ("log", "--first-parent", "--reverse", "--format=%H %s", f"--max-count={MOST_COMMITS + 1}", span)
    lines = (await git_text(asked.endpoint, asked.repo, *words)).splitlines()
    base = await git_text(asked.endpoint, asked.repo, "merge-base", good.sha, bad.sha)
    if not lines or base != good.sha:
        raise Failure(
            "not_an_ancestor",
            f"{good.ref} ({good.sha[:12]}) is no ancestor of {bad.ref} ({bad.sha[:12]}), or the same commit",
            layer="caller",
            hint="Choose a good commit that bad is built on, such as base-of:BAD.",
            phase="resolve",
        )
    if len(lines) > MOST_COMMITS:
        raise Failure(
            "too_many_commits",
            f"there are more than {MOST_COMMITS} commits between {good.ref} and {bad.ref}",
            layer="caller",
            hint="Choose ends that are nearer to each other.",
            phase="resolve",
        )
    pairs = [line.split(" ", 1) for line in lines]
    return [pair[0] for pair in pairs], {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}


async def _hunt(ctx: Context, hunt: _Hunt, ends: list[Planned]) -> None:
    for planned in ends:
        await _launch(ctx, hunt, planned.label, planned.round)
    good, bad = (hunt.ready.work.states[label].sha for label in (GOOD, BAD))
    hunt.values = {
        good: metric_of(hunt.launches(GOOD), hunt.request.metric),
        bad: metric_of(hunt.launches(BAD), hunt.request.metric),
    }
    worse = _regression(hunt, good, bad)
    if worse is None or worse < hunt.request.threshold:
        return
    while (sha := hunt.search.next()) is not None:
        await ctx.progress("bisect", f"{len(hunt.search.suspects())} suspects are left; measuring {sha[:12]}")
        said, why = await _look_at(ctx, hunt, sha)
        if said != "skipped":
            said = judge(hunt.values, good, bad, sha)
        hunt.search.known[sha] = said
        value = hunt.values.get(sha)
        step = BisectStep(sha=sha, subject=hunt.subjects[sha], said=said, value=value, why=why)
        step.regression_pct = regression_pct(hunt.values[good], value, direction_of(hunt.request.metric))
        hunt.steps.append(step)


def _regression(hunt: _Hunt, good: str, bad: str) -> float | None:
    return regression_pct(hunt.values[good], hunt.values[bad], direction_of(hunt.request.metric))


async def _look_at(ctx: Context, hunt: _Hunt, sha: str) -> tuple[Judged, str | None]:
    """Measure a commit; one whose native inputs differ, or whose service does not work, is skipped.

    Raises: Failure of anything else.
    """
    label = sha[:12]
    hunt.ready.work.states[label] = PinnedState(label=label, ref=sha, sha=sha, subject=hunt.subjects[sha])
    try:
        for number in range(1, hunt.request.rounds + 1):
            await _launch(ctx, hunt, label, number)
    except CleanupFailed:
        raise
    except Failure as failure:
        if failure.code not in GATE_CODES and failure.layer != "remote_workload":
            raise
        return "skipped", failure.message
    hunt.values[sha] = metric_of(hunt.launches(label), hunt.request.metric)
    return "good", None


async def _launch(ctx: Context, hunt: _Hunt, label: str, number: int) -> None:
    """Carry a launch out, unless the run that is resumed has done so."""
    hunt.numbers += 1
    if any(record.round == number for record in hunt.launches(label)):
        return
    await carry_out(ctx, hunt.ready.work, Planned(hunt.numbers, number, label), hunt.ready.done)


def _result(hunt: _Hunt) -> BenchBisectResult:
    good, bad = (hunt.ready.work.states[label].sha for label in (GOOD, BAD))
    worse, request = _regression(hunt, good, bad), hunt.request
    result = BenchBisectResult(
        task_id=hunt.asked.task.task_id,
        model=request.model,
        metric=request.metric,
        regression_pct=worse,
        steps=hunt.steps,
        commits=len(hunt.search.commits),
        resumed_from=hunt.ready.record.resumed_from,
        result_paths=hunt.ready.done.paths,
        config=_config(hunt),
    )
    if worse is None or worse < request.threshold:
        said = "unknown" if worse is None else f"{worse:+.1f} %"
        result.status = "no_regression"
        result.summary = f"bad is not worse than good by {request.threshold:g} %: {request.metric} {said}"
        result.hint = "More rounds or runs make a small difference clearer; bench_compare gives its interval."
        return result
    result.suspects = hunt.search.suspects()
    if len(result.suspects) == 1:
        (sha,) = result.suspects
        step = regression_pct(hunt.values[_before(hunt, good)], hunt.values[sha], direction_of(request.metric))
        result.first_bad = {"sha": sha, "subject": hunt.subjects[sha], "regression_pct": step}
        own = "unknown" if step is None else f"{step:+.1f} %"
        result.summary = (
            f"the first bad commit is {sha[:12]} {hunt.subjects[sha]}: {request.metric} {own} against the commit "
            f"before it, of {worse:+.1f} % between good and bad"
        )
    else:
        result.status = "narrowed"
        result.summary = (
            f"the first bad commit is one of {len(result.suspects)}; between good and bad {request.metric} became "
            f"{worse:.1f} % worse"
        )
        result.hint = "Those between could not be measured: build each state on its own, or allow_stale_native=true."
    return result


def _before(hunt: _Hunt, good: str) -> str:
    """Return the newest good commit before the first bad one."""
    low, _high = hunt.search.bounds()
    return good if low < 0 else hunt.search.commits[low]


def _config(hunt: _Hunt) -> dict[str, Any]:
    return {**hunt.asked.settings.as_config(), "rounds": hunt.request.rounds, "threshold": hunt.request.threshold}

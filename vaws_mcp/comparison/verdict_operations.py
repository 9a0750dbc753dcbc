"""bench_verdict."""

from pathlib import Path

from pydantic import Field

from vaws_mcp.comparison.models import Judged
from vaws_mcp.comparison.records import PLAN_FILE, ComparisonRecord, load_launches
from vaws_mcp.comparison.statistics import judged
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import NeedsInput, Refused
from vaws_mcp.core.models import Request, Result
from vaws_mcp.core.operation import operation
from vaws_mcp.presets.policies import load_policy
from vaws_mcp.runs.records import RunDir, find_run
from vaws_mcp.store.records import load


class BenchVerdictRequest(Request):
    """Arguments of ``bench_verdict``."""

    run_id: str = Field(description="Id of a run of bench_compare.")
    policy: str = Field(min_length=1, description="Declared policy: a shipped name, or a JSON file of the same form.")


class BenchVerdictResult(Result, Judged):
    """A policy applied to a run. The exit code is 5 when the verdict is failed."""

    run_id: str = Field(description="Id of the run.")
    launches: dict[str, int] = Field(description="Launches of each state that count.")


def _check(request: BenchVerdictRequest) -> None:
    load_policy(request.policy)


@operation(
    "bench_verdict",
    title="Judge a comparison by a policy",
    effect="read",
    idempotent=True,
    positionals=("run_id",),
    check=_check,
)
async def bench_verdict(request: BenchVerdictRequest, ctx: Context) -> BenchVerdictResult:
    """Apply a declared policy to the launches of a comparison: passed, failed or inconclusive, with the reason of each.

    Below 4 launches of each state no metric can pass or fail; quality gates always can. Declare the policy before you
    measure: a threshold chosen after the figures proves nothing.
    """
    policy = load_policy(request.policy)
    run = comparison_run(ctx.state_dir, request.run_id)
    launches = [record for record in load_launches(run.path) if record.counted and record.status == "ok"]
    labels = list(dict.fromkeys(record.label for record in launches))
    if len(labels) < 2:
        raise NeedsInput(
            "nothing_to_judge",
            f"{run.run_id} has finished launches of {len(labels)} states; a verdict needs two",
            hint=f"Go on with it: bench_compare with resume={run.run_id}.",
        )
    if run.state() != "finished":
        ctx.warn(f"{run.run_id} is {run.state()}: the verdict is on the launches that it has finished")
    plan = load(run.path / PLAN_FILE, ComparisonRecord)
    found = judged(policy.name, policy, launches, [(state.label, case) for state in plan.states for case in plan.cases])
    if plan.resumed_from is not None:
        ctx.warn(f"mixed set: {run.run_id} resumed {plan.resumed_from} and has taken its finished launches over")
    counts = {label: len({record.number for record in launches if record.label == label}) for label in labels}
    return BenchVerdictResult(
        **found.model_dump(),
        run_id=run.run_id,
        launches=counts,
        summary=f"verdict {found.verdict} by policy {policy.name}: {', '.join(labels[1:])} against {labels[0]}",
        refs={"run": str(run.path)},
    )


def comparison_run(state_dir: Path, run_id: str) -> RunDir:
    """Return the directory of a run of ``bench_compare``.

    Raises: Refused when it is another one; NeedsInput when there is none.
    """
    run = find_run(state_dir, run_id)
    if not (run.path / PLAN_FILE).exists():
        raise Refused(
            "not_a_comparison",
            f"{run_id} is a run of {run.record().operation} that has compared nothing",
            hint="run_list names the operation of each run.",
        )
    return run

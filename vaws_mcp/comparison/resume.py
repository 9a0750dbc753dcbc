"""Going on with a comparison whose process was killed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from vaws_mcp.comparison.models import LaunchesRequest
from vaws_mcp.comparison.records import PLAN_FILE, ComparisonRecord, LaunchRecord, load_launches
from vaws_mcp.coordinator.executions import stop
from vaws_mcp.coordinator.records import executions
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, NeedsInput, Refused
from vaws_mcp.core.redact import MASK, redact
from vaws_mcp.endpoint.connect import connected
from vaws_mcp.endpoint.registry import present
from vaws_mcp.runs.records import RunDir, find_run
from vaws_mcp.source.records import FILES as TREE_FILES
from vaws_mcp.source.tree import put_back
from vaws_mcp.store.records import load
from vaws_mcp.taskstore.tasks import Task

R = TypeVar("R", bound=LaunchesRequest)

FREE = frozenset({"resume", "context_file", "wait_s", "on_cancel", "policy"})
"""Arguments that may be given, or be others, when a run is resumed."""


@dataclass(frozen=True)
class Earlier:
    """What to go on with. ``runs`` are the interrupted run and those that it had resumed itself, newest first.

    ``plan`` None: they were killed before anything was fixed. ``done`` are their finished launches, in
    ``directory``.
    """

    runs: list[RunDir]
    plan: ComparisonRecord | None
    done: list[LaunchRecord] = field(default_factory=list[LaunchRecord])
    directory: Path = Path()


def continued(request: R, operation: str, state_dir: Path) -> tuple[R, Earlier | None]:
    """Return the whole request, and the run that it resumes if it resumes one.

    Raises: Refused for a run of something else, or for arguments that are not those of the run. Blocked ``run_live``.
    NeedsInput for secrets that the run's record does not keep.
    """
    if request.resume is None:
        return request, None
    run = find_run(state_dir, request.resume)
    record = run.record()
    if record.operation != operation:
        raise Refused(
            "resume_other_operation",
            f"{run.run_id} is a run of {record.operation}",
            hint=f"{operation} resumes its own runs; run_list names the operation of each.",
        )
    if run.state() in ("starting", "running"):
        raise Blocked(
            "run_live",
            f"{run.run_id} is under way",
            layer="local",
            hint=f"Wait for it: run_wait with run_id={run.run_id}.",
            retry_safe=True,
            phase="resume",
        )
    if record.outcome == "success":
        raise Refused(
            "resume_finished", f"{run.run_id} has finished", hint=f"Its result: run_wait with run_id={run.run_id}."
        )
    runs = _chain(run, state_dir)
    asked = {name: value for one in reversed(runs) for name, value in one.record().request.items()}
    kept = {name: value for name, value in asked.items() if name not in FREE}
    given = request.model_dump(mode="json", exclude_unset=True)
    whole = {**asked, **_checked(run, kept, given), "resume": run.run_id}
    try:
        return type(request).model_validate(whole), _earlier(runs)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise Refused("resume_unreadable", f"the request of {run.run_id} cannot be read: {problem}") from None


def _chain(run: RunDir, state_dir: Path) -> list[RunDir]:
    """Return a run and those that it resumed, newest first."""
    runs = [run]
    while (before := runs[-1].record().request.get("resume")) is not None:
        runs.append(find_run(state_dir, before))
    return runs


def _checked(run: RunDir, kept: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given arguments once they are known to be those of the run, as far as its record shows them."""
    other = [name for name in given if name not in FREE and redact({name: given[name]})[name] != kept.get(name)]
    if other:
        raise Refused(
            "resume_differs",
            f"{', '.join(other)} differs from what {run.run_id} was started with",
            hint="Launches of one comparison use identical arguments. Leave them out, or start a new run.",
        )
    masked = [name for name, value in kept.items() if name not in given and MASK in str(value)]
    if masked:
        raise NeedsInput(
            "secret_needed",
            f"the record of {run.run_id} does not keep the secrets in {', '.join(masked)}",
            hint="Give these arguments again, as they were.",
        )
    return dict(given)


def _earlier(runs: list[RunDir]) -> Earlier:
    """Return what the newest run of a chain that came so far has fixed and finished."""
    for run in runs:
        if (run.path / PLAN_FILE).exists():
            plan = load(run.path / PLAN_FILE, ComparisonRecord)
            return Earlier(runs, plan, whole_launches(load_launches(run.path), plan.cases), run.path)
    return Earlier(runs, None)


def whole_launches(launches: list[LaunchRecord], cases: list[str]) -> list[LaunchRecord]:
    """Return the launches that count: every case of a launch was measured and nothing failed."""
    good = [record for record in launches if record.status == "ok"]
    measured = {(record.number, record.case) for record in good}
    return [record for record in good if all((record.number, case) in measured for case in cases)]


async def clean_up_after(ctx: Context, task: Task, earlier: Earlier) -> None:
    """Stop what the earlier run left on its endpoint, launches before their reservation, and put its tree back.

    Raises: Refused when it belongs to another task. CleanupFailed; Failure of the endpoint.
    """
    newest = earlier.runs[0]
    if newest.task_dir != task.directory:
        raise Refused(
            "resume_other_task",
            f"{newest.run_id} belongs to task {newest.task_dir.name}",
            hint="Give the context_file of that task.",
        )
    names = {run.run_id for run in earlier.runs}
    left = [record for record in executions(task.directory) if not record.ended and record.labels.get("run") in names]
    for record in sorted(left, key=lambda record: record.kind == "reservation"):
        await ctx.progress("resume", f"stopping {record.name}, which {record.labels['run']} left")
        endpoint = await connected(ctx, present(ctx.state_dir, record.endpoint))
        await stop(task, endpoint, record, "its run is resumed")
    for run in earlier.runs:
        for path in sorted(run.path.glob(TREE_FILES)):
            if (note := await put_back(ctx, path)) is not None:
                ctx.warn(note)


def require_same_settings(plan: ComparisonRecord, config: Mapping[str, Any], cases: list[str]) -> None:
    """Refuse to go on with settings other than those of the finished launches. Pure.

    The arguments are the same by now; what a preset or a nightly case adds to them may have changed.

    Raises: Refused ``resume_differs``.
    """
    now = orjson.loads(orjson.dumps(config))
    other = [name for name, value in plan.config.items() if name in now and now[name] != value]
    other += ["bench_request_counts"] if cases != plan.cases else []
    if other:
        raise Refused(
            "resume_differs",
            f"{', '.join(other)} would differ from the launches so far: the preset or nightly case has changed",
            hint="Launches of one comparison use identical arguments. Put it back, or start a new run.",
        )


def require_same_versions(plan: ComparisonRecord, receipt: Mapping[str, Any]) -> None:
    """Refuse to go on in an environment other than that of the finished launches. Pure; what is unknown is passed over.

    Raises: Blocked ``runtime_differs``.
    """
    before, now = _versions_in(plan.receipt), _versions_in(receipt)
    if plan.vllm is not None:
        before.pop("vllm tree", None)  # it is checked out anew
    other = [
        f"{name} was {value}, now it is {now[name]}"
        for name, value in before.items()
        if None not in (value, now.get(name)) and value != now[name]
    ]
    if other:
        raise Blocked(
            "runtime_differs",
            f"the launches so far were measured in another environment: {'; '.join(other)}",
            layer="remote_env",
            hint="Runs of different runtimes are never compared: put it back, or start a new run.",
            phase="resume",
        )


def _versions_in(receipt: Mapping[str, Any]) -> dict[str, str | None]:
    """Return what a receipt says about the endpoint besides the tree whose states are compared; null is unknown."""
    there: Mapping[str, Any] = receipt.get("endpoint") or {}
    named: dict[str, Any] = {**(there.get("packages") or {}), "Python": there.get("python")}
    named |= {f"CANN {name}": found for name, found in (there.get("cann") or {}).items()}
    found = {name: (fact or {}).get("version") for name, fact in named.items() if name != "vllm-ascend"}
    return {**found, "vllm tree": ((there.get("repos") or {}).get("vllm") or {}).get("commit")}


def mixed_set(earlier: Earlier) -> str:
    """Return the warning about a comparison that was measured in parts."""
    kept = sorted({record.number for record in earlier.done})
    last = max(record.ended_at for record in earlier.done)
    return (
        f"mixed set: launches {', '.join(map(str, kept))} are those of {earlier.runs[0].run_id}, which was "
        f"interrupted; the last of them ended at {last}, and what changed on the host since is not known"
    )

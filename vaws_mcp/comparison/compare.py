"""The flow of a comparison: resolve, then for each state check out, launch, measure and stop; at the end put back."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaws_mcp.bench.measure import Launch, Place, measure_launch, prepare_place, save_launch
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.comparison.models import State
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed, Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.source.records import FILE as TREE_FILE
from vaws_mcp.source.records import TreeRecord
from vaws_mcp.source.refs import Commit, resolve_ref
from vaws_mcp.source.tree import TreeState, checkout, read_tree, require_at, restored
from vaws_mcp.taskstore.tasks import Task


@dataclass
class Progress:
    """What a comparison has finished so far."""

    launches: list[Launch] = field(default_factory=list[Launch])
    results: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paths: list[str] = field(default_factory=list[str])

    def fields(self) -> dict[str, Any]:
        """Return what a failure carries."""
        return {"partial_states": self.results, "result_paths": self.paths}


@dataclass(frozen=True)
class Plan:
    """Everything that is fixed before the first launch."""

    task: Task
    endpoint: Endpoint
    repo: str
    before: TreeState
    commits: list[tuple[State, Commit]]
    settings: BenchSettings


async def resolve_states(endpoint: Endpoint, states: list[State]) -> tuple[TreeState, list[tuple[State, Commit]]]:
    """Look where the tree stands and resolve every ref, so that nothing starts when one is wrong.

    Raises: Failure of the tree or of a ref.
    """
    repo = endpoint.config.vllm_ascend_repo
    before = await read_tree(endpoint, repo)
    return before, [(state, await resolve_ref(endpoint, repo, state.ref)) for state in states]


async def measure_states(ctx: Context, plan: Plan, run_dir: Path, done: Progress) -> None:
    """Measure all states one after another and put the tree back.

    ``done`` is filled as states finish; each is on disk before the next begins.

    Raises: Failure with ``partial_states`` and ``result_paths``; CleanupFailed outranks everything.
    """
    place = await prepare_place(plan.task, plan.endpoint, run_dir)
    ctx.partial.update(done.fields())
    try:
        async with restored(ctx, plan.endpoint, _tree_record(plan), run_dir / TREE_FILE):
            for state, commit in plan.commits:
                await _measure_state(ctx, plan, place, run_dir, state, commit, done)
    except Failure as failure:
        raise failure.carrying(**done.fields()) from None


def _tree_record(plan: Plan) -> TreeRecord:
    before = plan.before
    ours = [commit.sha for _state, commit in plan.commits]
    return TreeRecord(
        endpoint=plan.endpoint.config, repo=plan.repo, branch=before.branch, sha=before.sha, tree=before.tree, ours=ours
    )


async def _measure_state(
    ctx: Context, plan: Plan, place: Place, run_dir: Path, state: State, commit: Commit, done: Progress
) -> None:
    step = ctx.progress
    await step("checkout", f"{state.label}: {commit.sha[:12]} {commit.subject}", state=state.label)
    await checkout(plan.endpoint, plan.repo, commit.sha)
    launch = Launch(state.label)
    about = {"ref": state.ref, "sha": commit.sha, "subject": commit.subject}
    if commit.remote:
        about["remote"] = commit.remote
    if commit.base_of:
        about["base_of"] = commit.base_of
    try:
        await measure_launch(ctx, place, plan.settings, launch)
        await require_at(plan.endpoint, plan.repo, commit.sha)
    except BaseException as error:
        _keep(run_dir, launch, about, done, error)
        raise
    _keep(run_dir, launch, about, done, None)


def _keep(run_dir: Path, launch: Launch, about: dict[str, Any], done: Progress, error: BaseException | None) -> None:
    """Write a state that has finished or failed, and note it."""
    status = "ok" if error is None else error.status if isinstance(error, Failure) else "interrupted"
    measured = error is None or (isinstance(error, CleanupFailed) and bool(launch.counted))
    path = save_launch(run_dir, launch, status=status, **about)
    done.paths += [str(path), *launch.paths]
    done.results.append(
        {
            "label": launch.label,
            "status": status,
            **about,
            "launch": launch.service,
            "per_run": launch.per_run,
            "aggregated": launch.aggregated(),
        }
    )
    if measured:
        done.launches.append(launch)

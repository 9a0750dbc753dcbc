"""runtime_check, runtime_prepare."""

from vaws_mcp.core.context import Context
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.presets.runtime.compare import Comparison, compare, named, nearest, not_matching
from vaws_mcp.presets.runtime.look import LOOK_S, flat, versions_of
from vaws_mcp.presets.runtime.models import (
    RuntimeCheckRequest,
    RuntimeCheckResult,
    RuntimePrepareRequest,
    RuntimePrepareResult,
)
from vaws_mcp.presets.runtime.plan import Choices
from vaws_mcp.presets.runtime.prepare import Work, apply, as_planned, planned
from vaws_mcp.presets.runtimes import load_profile, shipped_profiles
from vaws_mcp.runs.launch import create_run
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import require_task

RUN_KIND = "preparation"


def _check(request: RuntimeCheckRequest | RuntimePrepareRequest) -> None:
    """Refuse a profile that cannot be used, before anything is contacted.

    Raises: Refused.
    """
    if request.profile:
        load_profile(request.profile)


def _only_looks(request: RuntimePrepareRequest) -> bool:
    return not request.apply


@operation(
    "runtime_check",
    title="Compare with a profile",
    effect="read",
    idempotent=True,
    timeout_s=LOOK_S,
    check=_check,
)
async def runtime_check(request: RuntimeCheckRequest, ctx: Context) -> RuntimeCheckResult:
    """Compare what an endpoint runs with, with a runtime profile: Python, driver, CANN, packages, commits.

    Each version is match, mismatch, missing or unreadable; the verdict is passed only when all of the profile match.
    Without `profile` all shipped ones are compared, and the answer names the one that matches, or the nearest.
    """
    profiles = [load_profile(request.profile)] if request.profile else shipped_profiles()
    endpoint = await reach(ctx, request)
    versions = await versions_of(endpoint, refresh=request.refresh_env)
    comparisons = [compare(profile, versions) for profile in profiles]
    best = nearest(comparisons)
    result = RuntimeCheckResult(
        endpoint=endpoint.config.address,
        profile=best.profile.name if best and (request.profile or best.whole) else None,
        verdict=("passed" if best.whole else "failed") if best and request.profile else None,
        items=best.items if best else [],
        nearest=best.profile.name if best else None,
        profiles=[
            {"name": one.profile.name, "matched": one.matched, "total": len(one.items), "whole": one.whole}
            for one in comparisons
        ],
        versions=flat(versions),
        environment=versions["environment"],
    )
    _conclude(result, best, endpoint)
    return result


def _conclude(result: RuntimeCheckResult, best: Comparison | None, endpoint: Endpoint) -> None:
    """Set status, summary and hint."""
    if best is None:
        result.status, result.summary = "no_profile", "no profile is shipped"
    elif best.whole:
        result.status, result.summary = "match", f"{endpoint.config.address} has {best.profile.name}"
    else:
        off = not_matching(best.items)
        goal = best.profile.name if result.profile else f"the nearest profile, {best.profile.name}"
        result.status = "mismatch"
        result.summary = (
            f"{endpoint.config.address} differs from {goal} in {len(off)} of {len(best.items)}: {named(off)}"
        )
        result.hint = f"Call runtime_prepare with profile={best.profile.name} to see what would have to be done."


@operation(
    "runtime_prepare",
    title="Prepare a runtime",
    effect="write",
    timeout_s=None,
    run_kind=RUN_KIND,
    at_once=_only_looks,
    check=_check,
)
async def runtime_prepare(request: RuntimePrepareRequest, ctx: Context) -> RuntimePrepareResult:
    """Bring an endpoint to a runtime profile: install its pins and wheels, and build vllm-ascend in place anew.

    By default (`plan`) every command and path is only shown. `apply` carries them out; it needs a task. Before the
    build only generated, untracked artifacts below the tree of vllm-ascend are removed. Driver, CANN, Python and the
    commits of the trees are never changed: where they differ, obstacles say so and nothing is done.
    """
    profile = load_profile(request.profile)
    if not request.apply:
        ctx.effect = "read"
    endpoint = await reach(ctx, request)
    choices = Choices(request.find_links, request.offline, request.rebuild, request.remote)
    if not request.apply:
        return as_planned(endpoint, await planned(endpoint, profile, choices))
    task = require_task(ctx, request.context_file, "runtime_prepare")
    arguments = request.model_dump(mode="json", exclude_unset=True)
    run_dir = ctx.run_dir or create_run(task, RUN_KIND, "runtime_prepare", arguments).path
    return await apply(ctx, Work(task, endpoint, run_dir), profile, choices)

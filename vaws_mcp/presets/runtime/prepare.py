"""Planning the way to a runtime profile, and going it."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from vaws_mcp.coordinator.reservation import reserved
from vaws_mcp.coordinator.wanted import TreeUse
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.presets.runtime.apply import carry_out
from vaws_mcp.presets.runtime.compare import Comparison, compare, named, not_matching
from vaws_mcp.presets.runtime.look import surroundings, user_of, versions_of
from vaws_mcp.presets.runtime.models import RuntimePrepareResult
from vaws_mcp.presets.runtime.plan import Choices, Plan, make_plan, shown
from vaws_mcp.presets.runtimes import RuntimeProfile
from vaws_mcp.taskstore.tasks import Task


@dataclass(frozen=True)
class Planned:
    """A comparison, and the plan that was made from it."""

    before: Comparison
    plan: Plan


@dataclass(frozen=True)
class Work:
    """Whose work it is, where it is done, and where it is recorded."""

    task: Task
    endpoint: Endpoint
    run_dir: Path


async def planned(endpoint: Endpoint, profile: RuntimeProfile, choices: Choices) -> Planned:
    """Compare an endpoint with a profile and return what has to be done, and what forbids it. Nothing is changed."""
    versions = await versions_of(endpoint)
    before = compare(profile, versions)
    plan = make_plan(before, await surroundings(endpoint, profile, versions), choices)
    for path in plan.trees:
        user = await user_of(endpoint, path)
        if user is not None:
            plan.obstacles.append(f"{path} is in use by {user}: wait for its end, or end it")
    return Planned(before, plan)


def as_planned(endpoint: Endpoint, found: Planned) -> RuntimePrepareResult:
    """Return the answer to a request that only asks for the plan."""
    before, plan = found.before, found.plan
    name = before.profile.name
    result = RuntimePrepareResult(
        endpoint=endpoint.config.address,
        profile=name,
        steps=[shown(step) for step in plan.steps],
        obstacles=plan.obstacles,
        items=before.items,
    )
    if plan.obstacles:
        result.status = "obstructed"
        result.summary = f"{name} cannot be reached: {plan.obstacles[0]}"
        result.hint = "Remove the obstacles; nothing is carried out before."
    elif plan.steps:
        result.status = "planned"
        result.summary = f"{len(plan.steps)} commands bring {endpoint.config.address} to {name}; nothing was changed"
        result.hint = "Call runtime_prepare again with apply=true to carry them out."
    else:
        result.status = "nothing_to_do"
        result.summary = f"{endpoint.config.address} has {name}"
    return result


async def apply(ctx: Context, work: Work, profile: RuntimeProfile, choices: Choices) -> RuntimePrepareResult:
    """Plan on the endpoint as it is now, carry it out, and compare again.

    Raises: Blocked ``runtime_obstructed``; Failure of a step; Failure ``runtime_differs`` when all commands succeeded
    and the profile is not reached all the same.
    """
    endpoint = work.endpoint
    await ctx.progress("plan", f"comparing with {profile.name}")
    found = await planned(endpoint, profile, choices)
    before, plan = found.before, found.plan
    if plan.obstacles:
        raise Blocked(
            "runtime_obstructed",
            f"{profile.name} cannot be reached on {endpoint.config.address}: {'; '.join(plan.obstacles)}",
            layer="remote_env",
            phase="plan",
            hint="Remove the obstacles, then repeat; nothing was changed.",
            retry_safe=True,
            fields={"obstacles": plan.obstacles, "items": [item.model_dump() for item in before.items]},
        )
    result = as_planned(endpoint, found)
    if not plan.steps:
        return result
    await _carried_out(ctx, work, plan, result)
    after = compare(profile, await versions_of(endpoint, refresh=True))
    result.items = after.items
    if not after.whole:
        raise Failure(
            "runtime_differs",
            f"all commands succeeded, and {profile.name} is not reached: {named(not_matching(after.items))}",
            layer="remote_env",
            phase="compare",
            hint="The items say what differs; the logs say what pip did.",
            fields=result.model_dump(mode="json", include={"profile", "steps", "items", "logs"}),
        )
    result.status, result.hint = "prepared", None
    result.summary = f"{endpoint.config.address} has {profile.name} after {len(plan.steps)} commands"
    return result


async def _carried_out(ctx: Context, work: Work, plan: Plan, result: RuntimePrepareResult) -> None:
    """Carry the plan out while nobody else may use the trees that it writes.

    Raises: Failure of a step or of the reservation, with the logs so far.
    """
    ctx.steps_total = len(plan.steps)
    try:
        async with AsyncExitStack() as held:
            if plan.trees:
                trees = [TreeUse(path, "exclusive") for path in plan.trees]
                await held.enter_async_context(reserved(ctx, work.task, work.endpoint, None, trees))
            await carry_out(ctx, work.endpoint, plan, work.run_dir, result.logs)
    except Failure as failure:
        raise failure.carrying(profile=result.profile, logs=result.logs) from None

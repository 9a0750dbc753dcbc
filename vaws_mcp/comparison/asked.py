"""A comparison as it was asked for: its states at their commits, launches, cases, devices and trees."""

from dataclasses import dataclass
from pathlib import Path

from vaws_mcp.bench.service import wanted_devices
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.comparison.cases import Case, cases_of
from vaws_mcp.comparison.models import LaunchesRequest, State
from vaws_mcp.comparison.records import ComparisonRecord, PinnedState
from vaws_mcp.comparison.resume import Earlier
from vaws_mcp.comparison.schedule import Order, Planned
from vaws_mcp.coordinator.wanted import DeviceRequest, TreeUse
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Refused
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.preflight import Surroundings
from vaws_mcp.source.fetching import Laptop
from vaws_mcp.source.patching import Patch, read_patch
from vaws_mcp.source.refs import resolve_ref
from vaws_mcp.source.tree import read_tree
from vaws_mcp.taskstore.tasks import Task


@dataclass(frozen=True)
class Asked:
    """A comparison as it was asked for, on an endpoint that has been looked at. ``earlier`` is what it resumes.

    ``launches`` are those that are known beforehand.
    """

    task: Task
    endpoint: Endpoint
    request: LaunchesRequest
    states: list[State]
    launches: list[Planned]
    order: Order
    settings: BenchSettings
    found: Surroundings
    earlier: Earlier | None = None

    @property
    def repo(self) -> str:
        """The tree in which the states are checked out."""
        return self.endpoint.config.vllm_ascend_repo

    @property
    def plan(self) -> ComparisonRecord | None:
        """What the run that this one resumes had fixed."""
        return self.earlier.plan if self.earlier else None

    def cases(self) -> list[Case]:
        """Return the loads under which each launch is measured."""
        return cases_of(self.settings)

    def devices(self) -> DeviceRequest | None:
        """Return the devices to reserve; a resumed run takes the ones it had."""
        if self.plan is not None and self.plan.devices:
            return DeviceRequest(ids=tuple(self.plan.devices))
        return wanted_devices(self.settings, self.found)

    def trees(self) -> list[TreeUse]:
        """Return the trees to hold: the one whose states are compared, and vLLM's, which must not change either."""
        vllm = self.endpoint.config.vllm_repo
        found = [TreeUse(self.repo, "exclusive")]
        if self.settings.vllm_ref is not None:
            return [*found, TreeUse(vllm, "exclusive")]
        return [*found, TreeUse(vllm)] if vllm in self.found.trees else found

    def patch(self) -> Patch | None:
        """Return the patch on top of every state.

        Raises: Refused when it cannot be read, or is not the one that a resumed run began with.
        """
        patch = read_patch(self.request.remote_patch_file) if self.request.remote_patch_file else None
        if self.plan is not None and self.plan.patch_sha256 != (patch.sha256 if patch else None):
            raise Refused("resume_differs", "the patch is not the one that the run began with", hint="Put it back.")
        return patch


@dataclass(frozen=True)
class Pinned:
    """The states at their commits, and vLLM's when it was asked for; ``candidates`` may become states later."""

    states: list[PinnedState]
    vllm: PinnedState | None = None
    candidates: tuple[str, ...] = ()


async def pinned(ctx: Context, asked: Asked) -> Pinned:
    """Resolve every ref, so that nothing starts when one is wrong; a resumed run keeps the commits it had.

    Raises: Failure of a ref, or of a tree when it cannot be used as it stands.
    """
    endpoint, vllm_repo, vllm_ref = asked.endpoint, asked.endpoint.config.vllm_repo, asked.settings.vllm_ref
    await read_tree(endpoint, asked.repo, dirty_allowed=asked.request.stash)
    if vllm_ref is not None:
        await read_tree(endpoint, vllm_repo, dirty_allowed=asked.request.stash)
    if asked.plan is not None:
        return Pinned(asked.plan.states, asked.plan.vllm)
    sources = asked.task.context.sources
    laptop = Laptop(ctx, Path(sources.vllm_ascend)) if sources.vllm_ascend else None
    states = [
        PinnedState.of(state.label, state.ref, await resolve_ref(endpoint, asked.repo, state.ref, laptop))
        for state in asked.states
    ]
    _warn_same_commit(ctx, states)
    if vllm_ref is None:
        return Pinned(states)
    laptop = Laptop(ctx, Path(sources.vllm)) if sources.vllm else None
    return Pinned(states, PinnedState.of("vllm", vllm_ref, await resolve_ref(endpoint, vllm_repo, vllm_ref, laptop)))


def _warn_same_commit(ctx: Context, states: list[PinnedState]) -> None:
    """Warn of states that are one commit: such a comparison only measures noise."""
    first: dict[str, str] = {}
    for state in states:
        label = first.setdefault(state.sha, state.label)
        if label != state.label:
            ctx.warn(f"{label} and {state.label} are the same commit {state.sha[:12]}: only noise can differ")

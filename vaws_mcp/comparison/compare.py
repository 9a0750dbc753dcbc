"""The flow of a comparison: resolve, reserve, then launch after launch; at the end put everything back."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vaws_mcp.bench.measure import Place, prepare_place, steps_of
from vaws_mcp.bench.service import Seat, receipt_of
from vaws_mcp.comparison.asked import Asked, Pinned, pinned
from vaws_mcp.comparison.fixed_requests import existing, keep, kept
from vaws_mcp.comparison.launching import carry_out
from vaws_mcp.comparison.native_gate import carry_over
from vaws_mcp.comparison.records import PLAN_FILE, ComparisonRecord, save_launch_record
from vaws_mcp.comparison.resume import require_same_settings, require_same_versions
from vaws_mcp.comparison.work import Progress, Work
from vaws_mcp.coordinator.reservation import reserved
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Blocked, Failure
from vaws_mcp.serving.preflight import choose_port
from vaws_mcp.source.records import FILE as TREE_FILE
from vaws_mcp.source.records import TreeRecord
from vaws_mcp.source.stash import stash_ref
from vaws_mcp.source.tree import checkout, read_tree, restored
from vaws_mcp.store.records import save

VLLM_TREE_FILE = "tree-vllm.json"


@dataclass(frozen=True)
class Prepared:
    """Everything is held and in its place: launches can begin."""

    record: ComparisonRecord
    work: Work
    done: Progress


@asynccontextmanager
async def prepared(ctx: Context, asked: Asked, run_dir: Path, fixed: Pinned) -> AsyncGenerator[Prepared]:
    """Hold devices and trees while the body carries launches out, and put the trees back.

    Raises: Failure with ``partial_states`` and ``result_paths``; CleanupFailed outranks everything.
    """
    patch, settings = asked.patch(), asked.settings
    if settings.serve.port is not None:
        await choose_port(asked.endpoint, settings.serve.port)
    if settings.fixed_dataset is not None and settings.fixed_dataset.path is not None:
        await existing(asked.endpoint, settings.fixed_dataset, settings.fixed_dataset.path)
    if asked.plan is not None:
        require_same_settings(asked.plan, settings.as_config(), [case.name for case in asked.cases()])
    done = _already(asked, run_dir)
    ctx.partial.update(done.fields())
    try:
        # Held from before the look that decides what is put back: it must not be what another run had checked out.
        async with reserved(ctx, asked.task, asked.endpoint, asked.devices(), asked.trees()) as reservation:
            place = await prepare_place(asked.task, asked.endpoint, run_dir, settings.serve.env)
            receipt = await receipt_of(asked.task, asked.endpoint, settings.serve)
            _require_same_runtime(done, place)
            if done.launches and asked.plan is not None:
                require_same_versions(asked.plan, receipt)
            work = Work(
                task=asked.task,
                endpoint=asked.endpoint,
                place=place,
                run_dir=run_dir,
                repo=asked.repo,
                states={state.label: state for state in fixed.states},
                request=asked.request,
                settings=settings,
                cases=asked.cases(),
                seat=Seat(
                    reservation.request(),
                    reservation=reservation.execution_id,
                    receipt=receipt,
                ),
                devices=reservation.devices,
                patch=patch,
            )
            record = _record(asked, work, fixed)
            save(run_dir / PLAN_FILE, record)
            async with _trees_at(ctx, asked, work, fixed):
                yield Prepared(record, work, done)
    except Failure as failure:
        raise failure.carrying(**done.fields()) from None


async def measure_all(ctx: Context, asked: Asked, run_dir: Path) -> Prepared:
    """Measure every launch that is not done yet and put the trees back.

    Each launch is on disk before the next begins.

    Raises: as ``prepared``, and Failure of a launch.
    """
    fixed = await pinned(ctx, asked)
    async with prepared(ctx, asked, run_dir, fixed) as ready:
        finished = {record.number for record in ready.done.launches}
        left = [planned for planned in asked.launches if planned.number not in finished]
        ctx.steps_total = len(left) * launch_steps(asked) + 1
        for planned in left:
            await carry_out(ctx, ready.work, planned, ready.done)
    return ready


def _require_same_runtime(done: Progress, place: Place) -> None:
    """Refuse to go on with launches that another vLLM was measured in.

    Raises: Blocked ``runtime_differs``.
    """
    before = {record.launch.get("client_version") for record in done.launches} - {None, place.client_version}
    if before and place.client_version is not None:
        raise Blocked(
            "runtime_differs",
            f"the launches so far were measured with vLLM {', '.join(map(str, before))}, now it is "
            f"{place.client_version}",
            layer="remote_env",
            hint="Runs of different runtimes are never compared: start a new run.",
            phase="resume",
        )


def _already(asked: Asked, run_dir: Path) -> Progress:
    """Return the launches that were done before, copied into this run's directory with what they rest on."""
    done = Progress()
    if asked.earlier is None or not asked.earlier.done:
        return done
    before = asked.earlier.directory
    carry_over(before, run_dir)
    if (requests := kept(before)) is not None:
        keep(run_dir, requests)
    for record in asked.earlier.done:
        done.paths += [str(save_launch_record(run_dir, record)), *record.result_paths]
        done.launches.append(record)
    return done


def _record(asked: Asked, work: Work, fixed: Pinned) -> ComparisonRecord:
    return ComparisonRecord(
        run_id=work.run_dir.name,
        model=asked.request.model,
        endpoint=asked.endpoint.config.address,
        states=fixed.states,
        cases=[case.name for case in work.cases],
        order=asked.order,
        rounds=asked.request.rounds,
        devices=[str(device["logic"]) for device in work.devices],
        vllm=fixed.vllm,
        patch_sha256=work.patch.sha256 if work.patch else None,
        config=asked.settings.as_config(),
        receipt=dict(work.seat.receipt),
        resumed_from=asked.earlier.runs[0].run_id if asked.earlier else None,
    )


@asynccontextmanager
async def _trees_at(ctx: Context, asked: Asked, work: Work, fixed: Pinned) -> AsyncGenerator[None]:
    """Put the trees back at the end; vLLM's is at its commit meanwhile, when one was asked for."""
    async with AsyncExitStack() as stack:
        for repo, name, shas in _trees_to_change(asked, work, fixed):
            record = await _tree_record(work, repo, shas)
            await stack.enter_async_context(restored(ctx, work.endpoint, record, work.run_dir / name))
        if fixed.vllm is not None:
            await ctx.progress("checkout", f"vLLM: {fixed.vllm.sha[:12]} {fixed.vllm.subject}")
            who, held = work.run_dir.name, work.seat.reservation
            await checkout(work.endpoint, asked.endpoint.config.vllm_repo, fixed.vllm.sha, who=who, reservation=held)
        yield


def _trees_to_change(asked: Asked, work: Work, fixed: Pinned) -> list[tuple[str, str, list[str]]]:
    """Return the trees that are put back at the end: path, name of the record, commits that are checked out there."""
    shas = [*(state.sha for state in work.states.values()), *fixed.candidates]
    found = [(asked.repo, TREE_FILE, shas)]
    if fixed.vllm is not None:
        found.append((asked.endpoint.config.vllm_repo, VLLM_TREE_FILE, [fixed.vllm.sha]))
    return found


def launch_steps(asked: Asked) -> int:
    """Return how many steps one launch reports."""
    return steps_of(replace(asked.settings, runs=asked.settings.runs * len(asked.cases())))


async def _tree_record(work: Work, repo: str, ours: list[str]) -> TreeRecord:
    before = await read_tree(work.endpoint, repo, dirty_allowed=work.request.stash)
    return TreeRecord(
        endpoint=work.endpoint.config,
        repo=repo,
        branch=before.branch,
        sha=before.sha,
        tree=before.tree,
        ours=ours,
        who=work.run_dir.name,
        reservation=work.seat.reservation,
        stash_ref=stash_ref(work.run_dir.name) if work.request.stash else None,
    )

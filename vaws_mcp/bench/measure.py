"""One iteration of the client, and one launch of a service measured several times."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaws_mcp.bench.client import ClientOutcome, ClientRun, client_version, fetch_result, run_client
from vaws_mcp.bench.client_check import check_client, result_missing, unusable
from vaws_mcp.bench.command import bench_argv, expected_prompts
from vaws_mcp.bench.judge import judge_iteration, metrics
from vaws_mcp.bench.parse_result import BenchResult, read_result
from vaws_mcp.bench.service import Seat, started
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.bench.watchdog import Watched
from vaws_mcp.coordinator.executions import observe
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.files import write_atomic
from vaws_mcp.core.redact import redact
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.numeric.summary import aggregate
from vaws_mcp.serving.idle import still_wanted
from vaws_mcp.serving.stop import Service, stop_service
from vaws_mcp.serving.target import Target
from vaws_mcp.store.records import dump_json
from vaws_mcp.taskstore.tasks import Task


@dataclass
class Launch:
    """What one launch of a service gave under one case. Iterations are in order; warmups come first.

    ``title`` names it to people; the names of its files begin with ``stem``.
    """

    label: str
    title: str = ""
    stem: str = ""
    service: dict[str, Any] = field(default_factory=dict[str, Any])
    per_run: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paths: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.title = self.title or self.label
        self.stem = self.stem or self.label

    @property
    def counted(self) -> list[dict[str, float | None]]:
        """Metrics of the iterations that are no warmups."""
        return [run["metrics"] for run in self.per_run if not run["warmup"]]

    def aggregated(self) -> dict[str, Any]:
        """Return count, and per metric mean, stddev (null below two values) and values."""
        counted = self.counted
        summary = {name: found.model_dump(mode="json") for name, found in aggregate(counted).items()}
        return {"count": len(counted), **summary}

    def means(self) -> dict[str, float | None]:
        """Return the mean of each metric over the counted iterations; null when it was never measured."""
        names = dict.fromkeys(name for run in self.counted for name in run)
        found = aggregate(self.counted)
        return {name: found[name].mean if name in found else None for name in names}


@dataclass(frozen=True)
class Place:
    """Where a launch is measured and where its results go. ``remote_dir`` is on the endpoint, ``raw_dir`` here."""

    task: Task
    endpoint: Endpoint
    remote_dir: str
    raw_dir: Path
    client_version: str | None = None


def steps_of(settings: BenchSettings) -> int:
    """Return how many steps one launch reports: ready, each iteration, stopped."""
    return settings.runs + 2


@asynccontextmanager
async def served(
    ctx: Context, place: Place, settings: BenchSettings, seat: Seat, label: str
) -> AsyncGenerator[Service]:
    """Start a service, give it to the body once it is ready, and stop it at the end whatever happens.

    Raises: Failure of the start or of the body, or CleanupFailed of the stop.
    """
    service = await started(ctx, place.task, place.endpoint, settings.serve, seat)
    await ctx.advance("ready", f"{label}: first token after {service.ready_s:.1f} s", state=label)
    async with watched_over(ctx, place, service):
        yield service
    await stop_service(ctx, place.task, place.endpoint, service.record)
    await ctx.advance("stopped", f"{label}: stopped, everything it held is free", state=label)


@asynccontextmanager
async def watched_over(ctx: Context, place: Place, service: Service, *, ours: bool = True) -> AsyncGenerator[None]:
    """Stop a service of ours when the body fails, and say so when the service is the cause. Others stay as they are.

    Raises: what the body raises, or CleanupFailed of the stop.
    """
    try:
        yield
    except Failure as failure:
        await _blame_dead_service(ctx, place, service, failure)
        if ours:
            await stop_service(ctx, place.task, place.endpoint, service.record, failure)
        raise
    except BaseException as error:
        if ours:
            await stop_service(ctx, place.task, place.endpoint, service.record, error)
        raise


async def measure(ctx: Context, place: Place, settings: BenchSettings, service: Service, launch: Launch) -> None:
    """Run all iterations of the client against a service. ``launch`` is filled as far as it got, also when this fails.

    Raises: Failure of an iteration.
    """
    launch.service = describe(service)
    launch.service["client_version"] = place.client_version
    for number in range(1, settings.runs + 1):
        await still_wanted(place.endpoint, service.record)
        await _iterate(ctx, place, settings, service, launch, number)


async def _blame_dead_service(ctx: Context, place: Place, service: Service, failure: Failure) -> None:
    """Say so when a failed iteration has its cause in the service: it ended while it was measured."""
    try:
        status = await observe(await renewed(ctx, place.endpoint), service.record)
    except Failure:
        return  # the endpoint cannot be asked; what failed is said anyway
    if status["state"] != "running":
        end = status.get("exit") or {}
        how = f"exit code {end['code']}" if end.get("code") is not None else f"signal {end.get('signal')}"
        failure.code = "service_died"
        failure.message = f"the service ended while it was measured ({how}); {failure.message}"


def describe(service: Service) -> dict[str, Any]:
    """Return what is kept about a service in results."""
    return {
        "execution_id": service.record.execution_id,
        "port": service.port,
        "ready_s": service.ready_s,
        "phases_s": service.phases,
        "command": service.record.command,
    }


async def _iterate(
    ctx: Context, place: Place, settings: BenchSettings, service: Service, launch: Launch, number: int
) -> None:
    warmup = number <= settings.warmup_runs
    kind = "warmup" if warmup else "run"
    await ctx.progress("bench", f"{launch.title}: {kind} {number} of {settings.runs}", state=launch.label, run=number)
    name = f"{launch.stem}-{number}.json"
    argv = bench_argv(settings, service.port, place.remote_dir, name)
    launch.service["bench_command"] = redact(argv)
    result, ended = await _measure(ctx, place, settings, service, argv, name)
    checked = check_client(result, ended, settings.bench_args)
    for warning in checked.warnings:
        ctx.warn(f"{launch.title}, run {number}: {warning}")
    facts = {"run": number, "warmup": warmup, "metrics": metrics(result), "client_s": ended.duration_s}
    launch.per_run.append({**facts, **checked.facts})
    launch.paths.append(str(place.raw_dir / name))
    found = launch.per_run[-1]["metrics"]
    await ctx.advance(
        "bench",
        f"{launch.title}: {kind} {number} of {settings.runs}: {shown(found)}",
        state=launch.label,
        run=number,
        metrics=found,
    )


def shown(found: dict[str, float | None]) -> str:
    """Return the two figures people look at first as words."""
    tpot, throughput = found.get("mean_tpot_ms"), found.get("output_throughput")
    parts = [f"TPOT {tpot:.2f} ms" if tpot is not None else "", f"{throughput:.0f} tok/s" if throughput else ""]
    return ", ".join(filter(None, parts)) or "measured"


async def _measure(
    ctx: Context, place: Place, settings: BenchSettings, service: Service, argv: list[str], name: str
) -> tuple[BenchResult, ClientOutcome]:
    """Run the client once and return its result, which is on disk here before this returns.

    Raises: Failure ``bench_unusable``, ``bench_result_missing`` or ``bench_stalled`` with the evidence.
    """
    run = ClientRun(argv, {**settings.serve.env, **settings.bench_env}, settings.timeout_s, settings.stall_timeout_s)
    watched = Watched(service.record, Target.of(service.settings, service.port))
    ended = await run_client(place.endpoint, run, watched)
    log = place.raw_dir / f"{name}.log"
    write_atomic(log, ended.log_text().encode())
    if (failure := ended.failure(log)) is not None:
        raise failure
    text = await fetch_result(ctx, place.endpoint, f"{place.remote_dir}/{name}", place.raw_dir / name)
    if text is None:
        raise result_missing(ended, log)
    result = read_result(text)[-1]
    prompts = expected_prompts(settings.bench_args)
    judged = judge_iteration(result, expected_prompts=prompts, exit_code=ended.exit_code, fresh=True)
    if not judged.usable:
        raise unusable(ended, result, judged, log)
    return result, ended


async def prepare_place(task: Task, endpoint: Endpoint, run_dir: Path, env: Mapping[str, str] | None = None) -> Place:
    """Make the directories for raw results on both sides; with ``env`` also ask for the client's version there."""
    remote = f"{endpoint.hello['home']}/.vaws/bench/{run_dir.name}"
    params = {"argv": ["mkdir", "-p", "-m", "700", remote], "timeout_s": 30.0}
    await endpoint.call("run", params)
    raw = run_dir / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    version = None if env is None else await client_version(endpoint, env)
    return Place(task, endpoint, remote, raw, version)


def save_launch(run_dir: Path, launch: Launch) -> Path:
    """Write the one launch of ``bench_run`` and return its path."""
    path = run_dir / "launch.json"
    body = {
        "schema": "vaws.bench_launch.v1",
        "label": launch.label,
        "launch": launch.service,
        "per_run": launch.per_run,
        "aggregated": launch.aggregated(),
        "result_paths": launch.paths,
    }
    write_atomic(path, dump_json(body))
    return path

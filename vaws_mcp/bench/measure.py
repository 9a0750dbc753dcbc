"""One iteration of the client, and one launch of a service measured several times."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaws_mcp.bench.command import bench_argv, expected_prompts
from vaws_mcp.bench.parse_result import BenchResult, judge_iteration, last_error_line, metrics, read_result
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.coordinator.executions import observe
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, TimedOut
from vaws_mcp.core.files import write_atomic
from vaws_mcp.core.redact import redact, redact_text
from vaws_mcp.core.sanitize import plain_text
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.numeric.summary import aggregate
from vaws_mcp.serving.launch import Service, start_service, stop_service
from vaws_mcp.store.records import dump_json
from vaws_mcp.taskstore.tasks import Task

MAX_RESULT_BYTES = 64 << 20


@dataclass
class Launch:
    """What one launch of a service gave. Iterations are in order; warmups come first."""

    label: str
    service: dict[str, Any] = field(default_factory=dict[str, Any])
    per_run: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    paths: list[str] = field(default_factory=list[str])

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


def steps_of(settings: BenchSettings) -> int:
    """Return how many steps one launch reports: ready, each iteration, stopped."""
    return settings.runs + 2


async def measure_launch(ctx: Context, place: Place, settings: BenchSettings, launch: Launch) -> None:
    """Start the service, measure it, and stop it. ``launch`` is filled as far as it got, also when this fails.

    Raises: Failure of the start, of an iteration, or CleanupFailed of the stop.
    """
    service = await start_service(ctx, place.task, place.endpoint, settings.serve)
    launch.service = describe(service)
    await ctx.advance("ready", f"{launch.label}: first token after {service.ready_s:.1f} s", state=launch.label)
    try:
        for number in range(1, settings.runs + 1):
            await _iterate(ctx, place, settings, service, launch, number)
    except Failure as failure:
        await _blame_dead_service(ctx, place, service, failure)
        await stop_service(ctx, place.task, place.endpoint, service.record, failure)
        raise
    except BaseException as error:
        await stop_service(ctx, place.task, place.endpoint, service.record, error)
        raise
    await stop_service(ctx, place.task, place.endpoint, service.record)
    await ctx.advance("stopped", f"{launch.label}: stopped, everything it held is free", state=launch.label)


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
    await ctx.progress("bench", f"{launch.label}: {kind} {number} of {settings.runs}", state=launch.label, run=number)
    name = f"{launch.label}-{number}.json"
    argv = bench_argv(settings, service.port, place.remote_dir, name)
    launch.service["bench_command"] = redact(argv)
    result = await _measure(place, settings, argv, name)
    launch.per_run.append({"run": number, "warmup": warmup, "metrics": metrics(result)})
    launch.paths.append(str(place.raw_dir / name))
    found = launch.per_run[-1]["metrics"]
    await ctx.advance(
        "bench",
        f"{launch.label}: {kind} {number} of {settings.runs}: {shown(found)}",
        state=launch.label,
        run=number,
        metrics=found,
    )


def shown(found: dict[str, float | None]) -> str:
    """Return the two figures people look at first as words."""
    tpot, throughput = found.get("mean_tpot_ms"), found.get("output_throughput")
    parts = [f"TPOT {tpot:.2f} ms" if tpot is not None else "", f"{throughput:.0f} tok/s" if throughput else ""]
    return ", ".join(filter(None, parts)) or "measured"


async def _measure(place: Place, settings: BenchSettings, argv: list[str], name: str) -> BenchResult:
    """Run the client once and return its result, which is on disk here before this returns.

    Raises: Failure ``bench_unusable`` or ``bench_result_missing`` with the evidence.
    """
    endpoint = place.endpoint
    params: dict[str, Any] = {
        "argv": argv,
        "cwd": endpoint.config.workdir,
        "env": {**settings.serve.env, **settings.bench_env},
        "env_spec": endpoint.env_spec(),
        "timeout_s": settings.timeout_s,
        "max_output_bytes": 200_000,
    }
    answer = await endpoint.call("run", params, deadline_s=settings.timeout_s + 30, retry_safe=False)
    ran = answer.result
    split = ran["stdout"]["kept_head"] + ran["stdout"]["kept_tail"]
    out, err = (plain_text(part.decode("utf-8", "replace")) for part in (answer.body[:split], answer.body[split:]))
    log = place.raw_dir / f"{name}.log"
    write_atomic(log, redact_text(f"$ {' '.join(argv)}\n{out}\n--- stderr ---\n{err}").encode())
    evidence = {"exit_code": ran["exit_code"], "console_tail": out[-2000:], "stderr_tail": err[-2000:]}
    if ran["timed_out"]:
        message = f"the benchmark client did not end within {settings.timeout_s:.0f} s and was ended"
        raise TimedOut("bench_timeout", message, layer="remote_workload", phase="bench", fields=evidence)
    if ran["signal_name"]:
        message = f"the benchmark client was ended by {ran['signal_name']}"
        raise Failure("bench_killed", message, layer="remote_workload", phase="bench", fields=evidence)
    text = await _fetch(place, name, out + "\n" + err, evidence)
    result = read_result(text)[-1]
    prompts = expected_prompts(settings.bench_args)
    judged = judge_iteration(result, expected_prompts=prompts, exit_code=ran["exit_code"], fresh=True)
    if not judged.usable:
        raise Failure(
            "bench_unusable",
            f"the benchmark measured nothing usable: {'; '.join(judged.problems)}",
            layer="remote_workload",
            hint=f"The client's output is in {log}.",
            phase="bench",
            fields={**evidence, "problems": judged.problems, "raw_metrics": result.model_dump(mode="json")},
            refs={"bench_log": str(log)},
        )
    return result


async def _fetch(place: Place, name: str, output: str, evidence: dict[str, Any]) -> str:
    """Bring the result file here. It did not exist before the client started, so it is fresh."""
    path = f"{place.remote_dir}/{name}"
    limits = {"max_bytes": MAX_RESULT_BYTES, "max_line_bytes": MAX_RESULT_BYTES}
    try:
        answer = await place.endpoint.call("read", {"path": path, **limits}, deadline_s=300.0)
    except Failure as failure:
        if failure.code != "not_found":
            raise
        why = last_error_line(output) or f"exit code {evidence['exit_code']}"
        raise Failure(
            "bench_result_missing",
            f"the benchmark client wrote no result: {why}",
            layer="remote_workload",
            hint=f"Its output is in {place.raw_dir / name}.log.",
            phase="bench",
            fields=evidence,
        ) from None
    write_atomic(place.raw_dir / name, answer.body)
    return answer.body.decode("utf-8", "replace")


async def prepare_place(task: Task, endpoint: Endpoint, run_dir: Path) -> Place:
    """Make the directories for raw results on both sides."""
    remote = f"{endpoint.hello['home']}/.vaws/bench/{run_dir.name}"
    params = {"argv": ["mkdir", "-p", "-m", "700", remote], "timeout_s": 30.0}
    await endpoint.call("run", params)
    raw = run_dir / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    return Place(task, endpoint, remote, raw)


def save_launch(run_dir: Path, launch: Launch, **more: Any) -> Path:
    """Write a finished launch, before the next one begins."""
    path = run_dir / "states" / f"{launch.label}.json"
    body = {
        "schema": "vaws.launch.v1",
        "label": launch.label,
        **more,
        "launch": launch.service,
        "per_run": launch.per_run,
        "aggregated": launch.aggregated(),
        "result_paths": launch.paths,
    }
    write_atomic(path, dump_json(body))
    return path

"""Running ``vllm bench latency`` or ``throughput`` as an execution that is given its devices."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaws_mcp.bench.client import fetch_result
from vaws_mcp.bench.engine_command import EngineSettings
from vaws_mcp.bench.judge import last_error_line
from vaws_mcp.bench.measure import Place
from vaws_mcp.bench.parse_console import EngineConsole, parse_engine_console
from vaws_mcp.bench.parse_engine import LatencyResult, ThroughputResult, engine_problems, read_engine_result
from vaws_mcp.coordinator.asked import checked_environment
from vaws_mcp.coordinator.executions import log_tail, submit, wait_until
from vaws_mcp.coordinator.receipt import launch_receipt
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.coordinator.wanted import DeviceRequest, TreeUse, Wanted
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, TimedOut
from vaws_mcp.core.files import write_atomic
from vaws_mcp.core.redact import redact_text
from vaws_mcp.core.sanitize import one_line, plain_text
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.serving.failures import admission_blocked, how_it_ended, layer_of
from vaws_mcp.serving.logs import diagnose
from vaws_mcp.serving.preflight import Surroundings
from vaws_mcp.serving.stop import stop_service

OUTPUT_BYTES = 256 << 10
_SHOWN = 2000


@dataclass
class EngineRun:
    """A benchmark that ran: its execution, result and output."""

    record: ExecutionRecord
    result: LatencyResult | ThroughputResult
    console: EngineConsole
    devices: list[str]
    duration_s: float | None
    paths: list[Path] = field(default_factory=list[Path])


def wanted_of(endpoint: Endpoint, settings: EngineSettings, found: Surroundings, output_json: str) -> Wanted:
    """Return the execution to submit: with the devices asked for, or as many free NPUs as the parallel sizes need."""
    devices = settings.devices
    if devices is None and found.npus and not settings.no_devices:
        devices = DeviceRequest(count=settings.engine.devices_needed())
    return Wanted(
        command=settings.argv(output_json),
        cwd=endpoint.config.workdir,
        env=checked_environment(settings.engine.env),
        env_spec=endpoint.env_spec(),
        devices=devices,
        # Nothing may write a tree from which a benchmark runs.
        trees=tuple(TreeUse(path) for path in found.trees),
        timeout_s=settings.timeout_s,
        labels={"kind": f"vllm-bench-{settings.kind}", "model": settings.engine.model},
    )


async def run_engine(ctx: Context, place: Place, settings: EngineSettings, found: Surroundings) -> EngineRun:
    """Run the benchmark to its end and return its result, which is on disk here before this returns.

    Waiting for devices is not bounded; ``run_cancel`` ends it. Whatever happens, nothing of it stays behind.

    Raises: Failure of the endpoint, of the benchmark with its evidence, or CleanupFailed.
    """
    remote = f"{place.remote_dir}/{settings.kind}.json"
    wanted = wanted_of(place.endpoint, settings, found, remote)
    wanted.receipt.update(await launch_receipt(place.task, place.endpoint, wanted.env))
    record = await submit(place.task, place.endpoint, wanted)
    try:
        status = await wait_until(ctx, place.endpoint, record, "exited", None)
        endpoint = await renewed(ctx, place.endpoint)
        run = await _outcome(ctx, place, settings, record, status)
    except BaseException as error:
        await stop_service(ctx, place.task, place.endpoint, record, error)
        raise
    await stop_service(ctx, place.task, endpoint, record)
    return run


async def _outcome(
    ctx: Context, place: Place, settings: EngineSettings, record: ExecutionRecord, status: dict[str, Any]
) -> EngineRun:
    """Bring output and result here and judge them.

    Raises: Failure with the evidence.
    """
    endpoint = await renewed(ctx, place.endpoint)
    if status.get("blocked"):
        raise admission_blocked(record, status["blocked"])
    streams = [plain_text(await log_tail(endpoint, record, name, OUTPUT_BYTES)) for name in ("stdout", "stderr")]
    log = place.raw_dir / f"{settings.kind}.log"
    write_atomic(log, redact_text("\n--- stderr ---\n".join(streams)).encode())
    code = (status.get("exit") or {}).get("code")
    out, err = (redact_text(text[-_SHOWN:]) for text in streams)
    evidence = {"exit_code": code, "console_tail": out, "stderr_tail": err, "execution_id": record.execution_id}
    if status["state"] != "exited" or code != 0:
        raise await _failed(endpoint, record, settings, status, evidence)
    path = place.raw_dir / f"{settings.kind}.json"
    text = await fetch_result(ctx, endpoint, f"{place.remote_dir}/{settings.kind}.json", path)
    if text is None:
        why = last_error_line("\n".join(streams)) or "exit code 0"
        raise _unusable("bench_result_missing", f"the benchmark wrote no result: {redact_text(why)}", evidence, log)
    console = parse_engine_console("\n".join(streams))
    result = read_engine_result(text, console)
    problems = engine_problems(result) + _shape_problems(result, settings)
    if problems:
        said = f"the benchmark measured nothing usable: {'; '.join(problems)}"
        raise _unusable("bench_unusable", said, {**evidence, "problems": problems}, log)
    if isinstance(result, LatencyResult) and result.avg_latency_s:
        tokens = settings.shape["batch_size"] * settings.shape["output_len"]
        result.output_throughput = tokens / result.avg_latency_s
    devices = [str(device["logic"]) for device in status.get("devices") or []]
    return EngineRun(record, result, console, devices, _duration_s(status), [path, log])


def _unusable(code: str, message: str, evidence: dict[str, Any], log: Path) -> Failure:
    return Failure(
        code,
        message,
        layer="remote_workload",
        hint=f"Its output is in {log}.",
        phase="bench",
        fields=evidence,
        refs={"bench_log": str(log)},
    )


def _shape_problems(result: LatencyResult | ThroughputResult, settings: EngineSettings) -> list[str]:
    """Return a sentence when the result is not of what was asked for."""
    name, measured = "num_prompts", None
    if isinstance(result, LatencyResult):
        name, measured = "num_iters", result.iterations
    else:
        measured = result.num_requests
    asked = settings.shape[name]
    return [f"The result is for {name} {measured}, {asked} were asked for."] if measured not in (None, asked) else []


async def _failed(
    endpoint: Endpoint,
    record: ExecutionRecord,
    settings: EngineSettings,
    status: dict[str, Any],
    evidence: dict[str, Any],
) -> Failure:
    """Build the failure of a benchmark that did not end well, with its cause as far as the logs tell."""
    if (status.get("exit") or {}).get("reason") == "timeout":
        message = f"vllm bench {settings.kind} did not end within {settings.timeout_s:.0f} s and was ended"
        hint = "Raise bench_timeout, or measure less."
        return TimedOut("bench_timeout", message, layer="remote_workload", phase="bench", hint=hint, fields=evidence)
    diagnosis = await diagnose(endpoint, record)
    why = one_line(str(diagnosis.line or status.get("note") or "see its output"), 240)
    return Failure(
        "bench_failed",
        f"vllm bench {settings.kind} failed ({how_it_ended(status)}): {why}",
        layer=layer_of(diagnosis),
        hint=diagnosis.hint or "The end of its output is in stderr_tail and console_tail.",
        phase="bench",
        fields={**evidence, **diagnosis.fields()},
    )


def _duration_s(status: dict[str, Any]) -> float | None:
    begin, end = status.get("started_at"), status.get("ended_at")
    return None if begin is None or end is None else round(end - begin, 3)

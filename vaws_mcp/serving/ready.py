"""Readiness: process alive, port ours, health 200, the name in the model list, and a first token."""

import time
from dataclasses import dataclass
from typing import Any

import anyio
import orjson

from vaws_mcp.coordinator.executions import log_tail, observe
from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, TimedOut
from vaws_mcp.core.sanitize import one_line, plain_text
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.settings import ServeSettings

FIRST_LOOK_S = 0.05
SLOWEST_LOOK_S = 1.0
TOKEN_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Stage:
    """How far a start has come: the phase, and what is still missing."""

    phase: str
    missing: str


async def wait_ready(
    ctx: Context, endpoint: Endpoint, record: ExecutionRecord, settings: ServeSettings, port: int
) -> dict[str, float]:
    """Wait until the service gave its first token; return seconds from now to each phase reached.

    Raises: Failure ``service_exited`` with the end of its log when it ends before. TimedOut ``service_not_ready`` after
    ``health_timeout_s``. The service is not stopped here.
    """
    start = time.monotonic()
    reached: dict[str, float] = {}
    pause = FIRST_LOOK_S
    while True:
        status = await observe(endpoint, record)
        if status["state"] in ("exited", "lost", "stopping"):
            raise await _exited(endpoint, record, status)
        stage = await _look(endpoint, status, settings, port)
        elapsed = time.monotonic() - start
        if stage.phase not in reached:
            reached[stage.phase] = round(elapsed, 3)
            await ctx.progress(stage.phase, f"{settings.served_model_name}: {stage.missing}")
        if stage.phase == "ready":
            return reached
        if elapsed > settings.health_timeout_s:
            raise await _too_slow(endpoint, record, settings, stage)
        await anyio.sleep(min(pause, max(0.01, settings.health_timeout_s - elapsed)))
        pause = min(pause * 1.3, SLOWEST_LOOK_S)


async def _look(endpoint: Endpoint, status: dict[str, Any], settings: ServeSettings, port: int) -> Stage:
    """Find the first condition that does not hold yet."""
    if status["state"] != "running":
        return Stage("starting", f"execution is {status['state']}")
    health = await _http(endpoint, settings, port, "GET", "/health")
    if health["status"] is None:
        return Stage("loading", "the server does not listen yet")
    await _require_own_port(endpoint, status, port)
    if health["status"] != 200:
        return Stage("http", f"/health answers {health['status']}")
    models = await _http(endpoint, settings, port, "GET", "/v1/models")
    if settings.served_model_name not in _model_ids(models["body"]):
        return Stage("health", f"/v1/models does not list {settings.served_model_name}")
    request = {"model": settings.served_model_name, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    answer = await _http(endpoint, settings, port, "POST", "/v1/completions", orjson.dumps(request))
    if answer["status"] != 200:
        said = one_line(answer["body"].decode("utf-8", "replace"))
        return Stage("models", f"a completion answers {answer['status']}: {said}")
    return Stage("ready", "first token")


async def _http(
    endpoint: Endpoint, settings: ServeSettings, port: int, method: str, path: str, body: bytes = b""
) -> dict[str, Any]:
    host = settings.host if settings.host != "0.0.0.0" else "127.0.0.1"  # noqa: S104 - where the service listens
    timeout_s = TOKEN_TIMEOUT_S if body else 10.0
    params: dict[str, Any] = {"method": method, "host": host, "port": port, "path": path, "timeout_s": timeout_s}
    params["headers"] = {"Content-Type": "application/json"} if body else {}
    answer = await endpoint.call("http", params, body=body, deadline_s=timeout_s + 10)
    return {**answer.result, "body": answer.body}


async def _require_own_port(endpoint: Endpoint, status: dict[str, Any], port: int) -> None:
    """Make sure that it is our service that listens: its owner belongs to the execution's family.

    Raises: Failure ``port_foreign``.
    """
    answer = await endpoint.call("ports", {"ports": [port]})
    found = answer.result["ports"][str(port)]
    family = {member["pid"] for member in status.get("family") or []}
    root = status.get("root") or {}
    ours = family & set(found["pids"]) or root.get("pid") in found["sids"]
    if found["listening"] and not ours:
        owners = ", ".join(map(str, found["pids"])) or "not visible"
        raise Failure(
            "port_foreign",
            f"port {port} on {endpoint.config.address} is answered by another process (pid {owners})",
            layer="remote_env",
            hint="Choose another port.",
            retry_safe=True,
            phase="ready",
        )


def _model_ids(body: bytes) -> list[str]:
    try:
        data = orjson.loads(body)["data"]
        return [str(item["id"]) for item in data]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return []


async def _exited(endpoint: Endpoint, record: ExecutionRecord, status: dict[str, Any]) -> Failure:
    tail = await _log(endpoint, record)
    end = status.get("exit") or {}
    how = f"exit code {end['code']}" if end.get("code") is not None else f"signal {end.get('signal')}"
    return Failure(
        "service_exited",
        f"the service ended before it was ready ({how}): {error_line(tail) or 'see its log'}",
        layer="remote_workload",
        hint="The end of its log is in log_tail; the whole log stays on the endpoint.",
        phase="serve",
        fields={"log_tail": tail},
    )


async def _too_slow(endpoint: Endpoint, record: ExecutionRecord, settings: ServeSettings, stage: Stage) -> Failure:
    return TimedOut(
        "service_not_ready",
        f"the service was not ready after {settings.health_timeout_s:.0f} s: {stage.missing}",
        layer="remote_workload",
        hint="Raise health_timeout if the model needs longer; the end of its log is in log_tail.",
        phase="serve",
        fields={"log_tail": await _log(endpoint, record)},
    )


async def _log(endpoint: Endpoint, record: ExecutionRecord) -> str:
    """Return the ends of both logs as plain text; vLLM writes to either."""
    out = plain_text(await log_tail(endpoint, record, "stdout", 6000)).strip()
    err = plain_text(await log_tail(endpoint, record, "stderr", 6000)).strip()
    return "\n".join(part for part in (out, err) if part)


def error_line(text: str) -> str | None:
    """Return the last line that reports an error, shortened."""
    marks = ("Error:", "Exception:", "error:", " ERROR ", "CRITICAL")
    lines = [line for line in text.splitlines() if any(mark in line for mark in marks)]
    return one_line(lines[-1], 300) if lines else None

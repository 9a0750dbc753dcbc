"""Asking a service itself: health, model list, one token."""

from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson

from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.settings import LOOPBACK, ServeSettings

HTTP_TIMEOUT_S = 10.0
MOST_BYTES = 1 << 20
_EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - where a service that listens everywhere is reached


@dataclass(frozen=True)
class Target:
    """Where a service answers on its endpoint, and under which name. ``headers`` may hold a key and are never kept."""

    host: str
    port: int
    served_model_name: str
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, settings: ServeSettings, port: int) -> "Target":
        """Return the target of a service with these settings."""
        key = settings.api_key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return cls(settings.host, port, settings.served_model_name, headers)

    @classmethod
    def recorded(cls, record: ExecutionRecord) -> "Target | None":
        """Return the target that an execution's record names, or None when it is no service."""
        labels = record.labels
        if not labels.get("port", "").isdecimal() or not labels.get("served_model_name"):
            return None
        return cls(labels.get("host", LOOPBACK), int(labels["port"]), labels["served_model_name"])

    def labels(self) -> dict[str, str]:
        """Return what a record must keep so that ``recorded`` finds the service again."""
        return {"port": str(self.port), "host": self.host, "served_model_name": self.served_model_name}


@dataclass(frozen=True)
class Token:
    """The answer to a request for one token. ``why`` says what is missing when it is not there. Units: seconds."""

    ok: bool
    seconds: float | None
    why: str | None


async def http(
    endpoint: Endpoint,
    target: Target,
    path: str,
    body: bytes = b"",
    timeout_s: float = HTTP_TIMEOUT_S,
    max_bytes: int = MOST_BYTES,
) -> dict[str, Any]:
    """Ask the service from its own endpoint: status (None when it does not answer), error, body."""
    headers = {**target.headers, **({"Content-Type": "application/json"} if body else {})}
    params: dict[str, Any] = {
        "method": "POST" if body else "GET",
        "host": _EVERYWHERE.get(target.host, target.host),
        "port": target.port,
        "path": path,
        "timeout_s": timeout_s,
        "max_bytes": max_bytes,
        "headers": headers,
    }
    answer = await endpoint.call("http", params, body=body, deadline_s=timeout_s + 10)
    return {**answer.result, "body": answer.body}


async def served_models(endpoint: Endpoint, target: Target) -> tuple[int | None, list[str]]:
    """Return the status of ``/v1/models`` and the names it lists."""
    answer = await http(endpoint, target, "/v1/models")
    try:
        return answer["status"], [str(item["id"]) for item in orjson.loads(answer["body"])["data"]]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return answer["status"], []


async def first_token(endpoint: Endpoint, target: Target, timeout_s: float) -> Token:
    """Ask for one token and wait for it at most ``timeout_s``.

    An API server whose engine is gone or hangs may accept the request and never answer, so the bound decides.
    """
    request = {"model": target.served_model_name, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    answer: dict[str, Any] | None = None
    with anyio.move_on_after(timeout_s + 5):
        try:
            answer = await http(endpoint, target, "/v1/completions", orjson.dumps(request), timeout_s)
        except Failure as failure:
            if failure.layer == "transport":
                raise
            return Token(ok=False, seconds=None, why=failure.message)
    if answer is None or answer["error"] == "timeout":
        return Token(ok=False, seconds=None, why=f"no first token within {timeout_s:.0f} s")
    if answer["status"] == 200:
        return Token(ok=True, seconds=round(answer["elapsed_ms"] / 1000, 3), why=None)
    said = one_line(answer["body"].decode("utf-8", "replace"))
    how = f"answers {answer['status']}: {said}" if answer["status"] else f"is not answered ({answer['error']})"
    return Token(ok=False, seconds=None, why=f"a completion {how}")


async def require_own_port(endpoint: Endpoint, status: dict[str, Any], port: int) -> None:
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

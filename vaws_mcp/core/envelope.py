"""The one shape of every answer."""

import time
from datetime import UTC, datetime
from typing import Any

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.models import Result
from vaws_mcp.core.redact import redact

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
EXIT_NOT_NOW = 3
EXIT_CLEANUP_FAILED = 4
EXIT_VERDICT_FAILED = 5
EXIT_CANCELLED = 130


class Stopwatch:
    """When a call began, as wall time for the record and as a monotonic clock for the duration."""

    def __init__(self) -> None:
        self.started_at = datetime.now(UTC)
        self._begin = time.perf_counter()

    def duration_ms(self) -> int:
        """Milliseconds since the start."""
        return round((time.perf_counter() - self._begin) * 1000)


def schema_name(operation: str) -> str:
    """Return the ``schema`` of an operation's answer."""
    return f"vaws.{operation}.v1"


def _frame(operation: str, watch: Stopwatch, ctx: Context | None, body: dict[str, Any]) -> dict[str, Any]:
    answer = {"schema": schema_name(operation), **body}
    answer["warnings"] = list(ctx.warnings) if ctx else []
    answer["refs"] = answer.get("refs") or {}
    answer["started_at"] = watch.started_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    answer["duration_ms"] = watch.duration_ms()
    if ctx is not None and ctx.simulated:
        answer["simulated"] = True
    return answer


def succeeded(operation: str, result: Result, watch: Stopwatch, ctx: Context) -> dict[str, Any]:
    """Return the answer for a result that the operation gave (which may well be an unfinished or failed one)."""
    body = result.model_dump(mode="json")
    head = {key: body.pop(key) for key in ("status", "outcome", "summary")}
    refs = body.pop("refs")
    hint = body.pop("hint")
    answer = _frame(operation, watch, ctx, {**head, **body, "refs": refs})
    if hint:
        answer["hint"] = hint
    return answer


def failed(operation: str, failure: Failure, watch: Stopwatch, ctx: Context | None) -> dict[str, Any]:
    """Return the answer for a failure, with everything it carries; secrets in messages are masked."""
    body: dict[str, Any] = {
        "status": failure.status,
        "outcome": failure.outcome,
        "summary": failure.message.splitlines()[0] if failure.message else failure.code,
        **failure.fields,
        "refs": failure.refs,
        "error": failure.error(),
    }
    return redact(_frame(operation, watch, ctx, body))


def exit_code(answer: dict[str, Any]) -> int:
    """Return the process exit code that says the same as the answer."""
    outcome, status = answer.get("outcome"), answer.get("status")
    if status == "cleanup_failed":
        return EXIT_CLEANUP_FAILED
    if outcome == "success":
        return EXIT_VERDICT_FAILED if answer.get("verdict") == "failed" else EXIT_OK
    if status == "refused":
        return EXIT_REFUSED
    if outcome in ("needs_input", "blocked"):
        return EXIT_NOT_NOW
    return EXIT_CANCELLED if outcome == "cancelled" else EXIT_FAILED

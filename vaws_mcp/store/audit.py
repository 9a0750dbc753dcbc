"""One line for every mutating operation, without secrets."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vaws_mcp.core.redact import redact
from vaws_mcp.core.sanitize import whole_text
from vaws_mcp.store.events import append_event

MAX_TEXT = 500
# What is typed into a program, under all its names: that may be a password, and nothing in it would say so.
TYPED = frozenset({"stdin", "data", "input", "chars"})


def audit(state_dir: Path, operation: str, request: dict[str, Any], answer: dict[str, Any]) -> None:
    """Append what was asked and how it ended to ``audit.jsonl`` (mode 0600). Long texts are shortened, not dropped."""
    error = answer.get("error") or {}
    line = {
        "at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "pid": os.getpid(),
        "operation": operation,
        "request": _shortened(redact(_without_typed(operation, whole_text(request)))),
        "status": answer.get("status"),
        "outcome": answer.get("outcome"),
        "code": error.get("code"),
        "duration_ms": answer.get("duration_ms"),
    }
    append_event(state_dir / "audit.jsonl", line, mode=0o600)


def _without_typed(operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the request with only the length of what is typed into a program."""
    typed = TYPED | {"text"} if operation == "job_stdin" else TYPED - {"input"}
    return {
        name: f"({len(value)} characters)" if name in typed and isinstance(value, str) else value
        for name, value in request.items()
    }


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[:MAX_TEXT]}… ({len(value)} characters)"
    if isinstance(value, int) and value.bit_length() > 63:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    return value

"""Short programs that a method of the worker runs for itself."""

from __future__ import annotations

from typing import Any, Dict, List

from ..refusal import Refusal
from ..request import Call, Request
from .run import run

_ASK_S = 30.0
_MAX_OUTPUT = 1 << 20


def ask(request: Request, argv: List[str], env: Dict[str, str]) -> str:
    """Run a short program and return its output.

    Raises: Refusal when it fails, with what it said.
    """
    values = {"argv": argv, "env": {**env, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}, "timeout_s": _ASK_S}
    inner = Request(Call(request.id, "run", {**values, "max_output_bytes": _MAX_OUTPUT}, b"", None), _ignore)
    inner.deadline, inner.waker = request.deadline, request.waker
    request.on_cancel = inner.cancel
    try:
        request.check()
        result, body = run(inner)
    finally:
        request.on_cancel = None
    split = result["stdout"]["kept_head"] + result["stdout"]["kept_tail"]
    if result["exit_code"] != 0:
        said = body[split:].decode("utf-8", "replace").strip().splitlines()[-1:]
        raise Refusal("failed", said[0] if said else "it did not end in time, or a signal ended it")
    return body[:split].decode("utf-8", "replace")


def _ignore(_head: Dict[str, Any], _body: bytes) -> None:
    """Take the events of the inner request, which has no caller of its own."""

"""The command line that repeats a measurement."""

import shlex
from typing import Any

from vaws_mcp.comparison.models import LaunchesRequest
from vaws_mcp.core.redact import redact

_ONE_STRING = frozenset({"serve_args", "bench_args"})
_LEFT_OUT = frozenset({"resume", "wait_s", "on_cancel", "plan"})


def repeat_words(request: LaunchesRequest, command: str) -> list[str]:
    """Return the command with the arguments that were given; secrets are masked. Pure."""
    given: dict[str, Any] = redact(request.model_dump(mode="json", exclude_unset=True, exclude=set(_LEFT_OUT)))
    words = ["remote-dev", command]
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif name in _ONE_STRING:
            words += [flag, shlex.join(value)]
        elif isinstance(value, dict):
            words += [word for key, item in value.items() for word in (flag, f"{key}={item}")]  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(value, list):
            words += [word for item in value for word in (flag, str(item))]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        elif value is not None:
            words += [flag, str(value)]
    return words

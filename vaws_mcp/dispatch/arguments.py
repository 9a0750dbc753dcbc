"""Checking arguments against a request model, with errors that help."""

import difflib
from typing import Any

from pydantic import ValidationError

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.models import Request
from vaws_mcp.core.operation import Operation

MOST_BITS = 63


def parse_request(operation: Operation, arguments: dict[str, Any], ctx: Context) -> Request:
    """Return the request model for these arguments.

    Aliases of common clients are accepted and named in a warning. Explicit nulls count as absent.

    Raises: Refused that names every wrong argument, and the nearest known name for an unknown one.
    """
    known = operation.request.model_fields
    given = {name: value for name, value in arguments.items() if value is not None or name not in known}
    for alias, name in operation.aliases:
        if alias in given and alias not in known and name not in given:
            given[name] = given.pop(alias)
            ctx.warn(f"argument {alias!r} was taken as {name!r}")
    unknown = [name for name in given if name not in known]
    if unknown:
        raise _unknown(operation, unknown, list(known))
    large = [name for name, value in given.items() if _is_too_large(value)]
    if large:
        message = f"{operation.name}: a number beyond 64 bits in {', '.join(large)}"
        raise Refused("argument_invalid", message, hint="Correct the arguments.")
    try:
        return operation.request.model_validate(given)
    except ValidationError as error:
        raise _invalid(operation, error) from None


def _is_too_large(value: Any) -> bool:
    """Tell whether a value holds a number that cannot be sent or written down."""
    if isinstance(value, dict):
        return any(map(_is_too_large, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_too_large, value))
    return isinstance(value, int) and value.bit_length() > MOST_BITS


def _unknown(operation: Operation, names: list[str], known: list[str]) -> Refused:
    parts: list[str] = []
    for name in names:
        near = difflib.get_close_matches(name, known, n=1)
        parts.append(f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name))
    return Refused(
        "argument_unknown",
        f"{operation.name} has no argument {', '.join(parts)}",
        hint=f"Arguments: {', '.join(known) or 'none'}.",
    )


def _invalid(operation: Operation, error: ValidationError) -> Refused:
    problems: list[str] = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"])
        text = problem["msg"].removeprefix("Value error, ")
        missing = problem["type"] == "missing"
        problems.append(f"{where} is missing" if missing else f"{where}: {text}" if where else text)
    return Refused("argument_invalid", f"{operation.name}: {'; '.join(problems)}", hint="Correct the arguments.")

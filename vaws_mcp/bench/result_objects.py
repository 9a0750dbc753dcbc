"""The JSON objects of a client's result file, read at bounded memory.

A result with ``--save-detailed`` holds an array with an entry for each request, and in ``itls`` one for each token:
100 MB are nothing unusual, and would be many times that as Python objects. Such arrays are checked entry by entry and
dropped.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vaws_mcp.core.failures import Failure
from vaws_mcp.core.sanitize import plain_text

_BLANK = re.compile(r"[ \t\r\n]*")
_RAW_LIMIT = 2000
_KEPT_ERRORS = 3
PER_REQUEST = frozenset(
    {"input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors"}
    | {"latencies", "queue_times"}
)
_DECODER = json.JSONDecoder()

Take = Callable[[Any], None]


class ParseFailure(Failure):
    """A result file that does not say what it must; its beginning is kept in ``raw_output``."""

    status = "unknown"

    def __init__(self, message: str, *, raw: str, hint: str) -> None:
        super().__init__(
            "bench_result_unreadable",
            message,
            layer="remote_workload",
            hint=hint,
            phase="read_result",
            fields={"raw_output": plain_text(raw[:_RAW_LIMIT])},
        )


@dataclass
class ResultObject:
    """One JSON object without its per-request arrays: their names are in ``detailed`` with their lengths.

    ``errors`` are the first different errors of requests, if the client saved any.
    """

    fields: dict[str, Any]
    detailed: dict[str, int] = field(default_factory=dict[str, int])
    errors: list[str] = field(default_factory=list[str])


def read_objects(text: str, takers: Mapping[str, Take] | None = None) -> list[Any]:
    """Return the JSON values that stand one after another in a file, as ``--append-result`` writes them.

    ``takers`` are given the entries of per-request arrays by the name of the array, one after the other.

    Shapes: an object becomes a ResultObject, any other value stays what it is.
    Raises: ParseFailure when one of them is no complete JSON.
    """
    found: list[Any] = []
    position = _skip_blank(text, 0)
    while position < len(text):
        try:
            is_object = text[position] == "{"
            value, position = _object(text, position, takers or {}) if is_object else _value(text, position)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
            raise ParseFailure(
                f"the result file is no complete JSON after {len(found)} whole result(s): {reason} at "
                f"character {getattr(error, 'pos', position)} of {len(text)}",
                raw=text,
                hint="The client was probably ended while it wrote. Measure again.",
            ) from None
        found.append(value)
        position = _skip_blank(text, position)
    return found


def _skip_blank(text: str, position: int) -> int:
    blank = _BLANK.match(text, position)
    return blank.end() if blank else position


def _value(text: str, position: int) -> tuple[Any, int]:
    return _DECODER.raw_decode(text, _skip_blank(text, position))


def _object(text: str, position: int, takers: Mapping[str, Take]) -> tuple[ResultObject, int]:
    """Read the object that begins at a position, key by key."""
    result = ResultObject({})
    takers = {"errors": lambda error: _note_error(result.errors, error), **takers}
    position, more = _next(text, position + 1, "}", first=True)
    while more:
        key, position = _value(text, position)
        if not isinstance(key, str):
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, position)
        position = _skip_blank(text, position)
        if text[position : position + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, position)
        position = _skip_blank(text, position + 1)
        if key in PER_REQUEST and text[position : position + 1] == "[":
            result.detailed[key], position = _entries(text, position, takers.get(key))
        else:
            result.fields[key], position = _value(text, position)
        position, more = _next(text, position, "}")
    return result, position


def _note_error(errors: list[str], error: Any) -> None:
    """Keep the last line of an error, which is a whole traceback, unless it is known or there are enough."""
    if isinstance(error, str) and error.strip() and len(errors) < _KEPT_ERRORS:
        last = plain_text(error).strip().rsplit("\n", 1)[-1]
        if last not in errors:
            errors.append(last)


def _entries(text: str, position: int, take: Take | None) -> tuple[int, int]:
    """Check the entries of an array one by one, hand them over and count them."""
    count = 0
    position, more = _next(text, position + 1, "]", first=True)
    while more:
        value, position = _value(text, position)
        count += 1
        if take is not None:
            take(value)
        position, more = _next(text, position, "]")
    return count, position


def _next(text: str, position: int, end: str, *, first: bool = False) -> tuple[int, bool]:
    """Step over what stands between two entries; tell where the next one begins, or that the end was reached."""
    position = _skip_blank(text, position)
    found = text[position : position + 1]
    if found == end:
        return position + 1, False
    if first and found:
        return position, True
    if found != ",":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, position)
    return _skip_blank(text, position + 1), True

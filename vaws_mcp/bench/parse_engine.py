"""Read the result files of ``vllm bench latency`` and ``vllm bench throughput``. Pure: text in, models out."""

import math
from typing import Any

from pydantic import BaseModel, Field

from vaws_mcp.bench.parse_console import EngineConsole
from vaws_mcp.bench.parse_result import engine_kind, read_values
from vaws_mcp.bench.result_objects import ParseFailure, ResultObject
from vaws_mcp.core.sanitize import one_line

RANKS = ("50", "90", "99")


class LatencyResult(BaseModel):
    """One run of ``vllm bench latency``: the time of a whole batch, from the prompts to the last token.

    Units: seconds; ``output_throughput`` tokens per second.
    """

    avg_latency_s: float | None = None
    p50_latency_s: float | None = None
    p90_latency_s: float | None = None
    p99_latency_s: float | None = None
    output_throughput: float | None = Field(default=None, description="Null when the shape of the batch is unknown.")
    iterations: int | None = None
    model_id: str | None = None


class ThroughputResult(BaseModel):
    """One run of ``vllm bench throughput``. Units: per second, seconds, tokens.

    ``output_throughput`` is only on the console; without it, it is null.
    """

    output_throughput: float | None = None
    total_token_throughput: float | None = None
    request_throughput: float | None = None
    num_requests: int | None = None
    total_tokens: int | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    duration_s: float | None = None
    model_id: str | None = None


def read_engine_result(text: str, console: EngineConsole | None) -> LatencyResult | ThroughputResult:
    """Read the one result in a file of either benchmark; the ``console`` adds what only it says.

    Raises: ParseFailure.
    """
    values = read_values(text)
    kind = engine_kind(values[0]) if isinstance(values[0], ResultObject) else None
    if len(values) != 1 or kind is None:
        raise ParseFailure(
            "expected one result of `vllm bench latency` or `vllm bench throughput`",
            raw=text,
            hint="Give the file that --output-json wrote.",
        )
    return engine_result(values[0], console)


def engine_result(found: ResultObject, console: EngineConsole | None) -> LatencyResult | ThroughputResult:
    """Return the result that was read as an object; see ``read_engine_result``."""
    return _latency(found) if engine_kind(found) == "latency" else _throughput(found, console or EngineConsole())


def _latency(found: ResultObject) -> LatencyResult:
    raw = found.fields
    percentiles: Any = raw.get("percentiles") or {}
    if not isinstance(percentiles, dict):
        raise _wrong("percentiles", percentiles)
    ranks = {f"p{rank}_latency_s": _number(percentiles, rank) for rank in RANKS}
    return LatencyResult(
        avg_latency_s=_number(raw, "avg_latency"),
        iterations=found.detailed.get("latencies"),
        model_id=_text(raw, "model_id"),
        **ranks,
    )


def _throughput(found: ResultObject, console: EngineConsole) -> ThroughputResult:
    raw = found.fields
    requests, total = _number(raw, "num_requests"), _number(raw, "total_num_tokens")
    result = ThroughputResult(
        total_token_throughput=_number(raw, "tokens_per_second"),
        request_throughput=_number(raw, "requests_per_second"),
        num_requests=None if requests is None else int(requests),
        total_tokens=None if total is None else int(total),
        duration_s=_number(raw, "elapsed_time"),
        model_id=_text(raw, "model_id"),
    )
    if agrees(console, result):
        result.output_throughput = console.output_throughput
        result.total_input_tokens = console.total_input_tokens
        result.total_output_tokens = console.total_output_tokens
    return result


def agrees(console: EngineConsole, result: ThroughputResult) -> bool:
    """Tell whether a console is of the same run as a file; it rounds to two decimals."""
    said, written = console.total_token_throughput, result.total_token_throughput
    return said is not None and written is not None and abs(said - written) <= 0.0051 + 1e-6 * written


def engine_problems(result: LatencyResult | ThroughputResult) -> list[str]:
    """Return a sentence for each thing that makes a result unusable."""
    if isinstance(result, LatencyResult):
        needed: dict[str, float | None] = {"avg_latency_s": result.avg_latency_s, "p50_latency_s": result.p50_latency_s}
    else:
        needed = {
            "total_token_throughput": result.total_token_throughput,
            "request_throughput": result.request_throughput,
        }
    return [
        f"{name} is {'unknown' if value is None else f'{value:g}'}, it must be above 0."
        for name, value in needed.items()
        if value is None or not value > 0
    ]


def engine_metrics(result: LatencyResult | ThroughputResult) -> dict[str, float | None]:
    """Return the compact metrics of a result, in a fixed order."""
    if isinstance(result, LatencyResult):
        names = ("avg_latency_s", "p50_latency_s", "p90_latency_s", "p99_latency_s", "output_throughput")
    else:
        names = ("output_throughput", "total_token_throughput", "request_throughput", "duration_s")
    return {name: getattr(result, name) for name in names}


def _number(raw: dict[str, Any], key: str) -> float | None:
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(key, value)
    return float(value)


def _text(raw: dict[str, Any], key: str) -> str | None:
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        raise _wrong(key, value)
    return value


def _wrong(key: str, value: object) -> ParseFailure:
    found = one_line(repr(value), 80)
    return ParseFailure(
        f"result key {key!r} has the value {found}", raw=f"{key}: {found}", hint="Measure again; the file was changed."
    )

"""Read the result files of ``vllm bench serve``. Everything here is pure: text in, models out."""

import json
import math
import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.bench.result_objects import ParseFailure, ResultObject, read_objects
from vaws_mcp.core.sanitize import one_line

_PERCENTILE = re.compile(r"p\d+(?:\.\d+)?_(?:ttft|tpot|itl|e2el)_ms")
_LARGEST = 2**63
ROUNDING = 0.01
FAMILIES = ("tpot", "ttft", "itl", "e2el")
STATISTICS = ("mean", "median", "std", "p99")
THROUGHPUTS = ("output_throughput", "request_throughput", "total_token_throughput")
# The oldest client that writes a key, newest first.
_SINCE = (
    ("latencies", "0.32"),
    ("probe_request_rate", "0.29"),
    ("rtfx", "0.18"),
    ("start_times", "0.16"),
    ("spec_decode_num_drafts", "0.14"),
    ("failed", "0.13"),
    ("max_output_tokens_per_s", "0.11"),
    ("request_goodput", "0.10"),
)

Millis = Annotated[float | None, Field(description="Milliseconds; null when the client had no sample.")]


class BenchResult(BaseModel):
    """One run of the client, in our names and units. A fact that the file does not hold is null.

    Units: throughput tok/s or req/s, latency ms, duration s, acceptance rates as fractions 0 to 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    output_throughput: float | None = Field(default=None, description="Generated tokens per second.")
    request_throughput: float | None = Field(default=None, description="Finished requests per second.")
    total_token_throughput: float | None = Field(default=None, description="Prompt and generated tokens per second.")
    request_goodput: float | None = Field(default=None, description="Requests per second within the declared limits.")
    mean_ttft_ms: Millis = None
    median_ttft_ms: Millis = None
    std_ttft_ms: Millis = None
    p99_ttft_ms: Millis = None
    mean_tpot_ms: Millis = None
    median_tpot_ms: Millis = None
    std_tpot_ms: Millis = None
    p99_tpot_ms: Millis = None
    mean_itl_ms: Millis = None
    median_itl_ms: Millis = None
    std_itl_ms: Millis = None
    p99_itl_ms: Millis = None
    mean_e2el_ms: Millis = None
    median_e2el_ms: Millis = None
    std_e2el_ms: Millis = None
    p99_e2el_ms: Millis = None
    percentiles: dict[str, float] = Field(default_factory=dict, description="Other percentiles, as p90_ttft_ms.")
    spec_decode_acceptance_rate: float | None = Field(default=None, description="Accepted share of draft tokens, 0..1.")
    spec_decode_acceptance_length: float | None = Field(default=None, description="Tokens per verification step.")
    spec_decode_per_position_acceptance_rates: list[float] | None = Field(
        default=None, description="Accepted share at each draft position, 0..1."
    )
    completed: int | None = Field(default=None, description="Requests that the client counts as successful.")
    failed: int | None = Field(default=None, description="Failed requests; computed when the client does not say.")
    num_prompts: int | None = Field(default=None, description="Requests asked for.")
    total_input_tokens: int | None = Field(default=None, description="Prompt tokens of the successful requests.")
    total_output_tokens: int | None = Field(default=None, description="Generated tokens of the successful requests.")
    duration_s: float | None = Field(default=None, description="Length of the measurement in seconds.")
    request_rate: float | None = Field(default=None, description="Requests per second; null means all at once.")
    max_concurrency: int | None = Field(default=None, description="Requests in flight; null means unlimited.")
    backend: str | None = Field(default=None, description="Client backend, such as openai-chat.")
    model_id: str | None = Field(default=None, description="Model name as the client was given it.")
    date: str | None = Field(default=None, description="Time stamp that the client wrote.")
    client_since: str | None = Field(default=None, description="Oldest vLLM whose client writes these keys.")
    errors: list[str] = Field(default_factory=list, description="First different errors of requests, if saved.")
    not_finite: list[str] = Field(default_factory=list, description="Keys whose value was NaN or infinite.")


class _Document:
    """Typed access to one JSON object of the client; every refusal names the key."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw
        self.not_finite: list[str] = []

    def keys(self, pattern: re.Pattern[str]) -> list[str]:
        return [key for key in self._raw if pattern.fullmatch(key)]

    def number(self, key: str) -> float | None:
        value = self._raw.get(key)
        return None if value is None else self._finite(key, value)

    def _finite(self, key: str, value: object) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(key, "a number")
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise self._wrong(key, "a number of a sensible size")
        if math.isfinite(value):
            return float(value)
        if key not in self.not_finite:
            self.not_finite.append(key)
        return None

    def count(self, key: str) -> int | None:
        value = self.number(key)
        if value is not None and (value < 0 or not value.is_integer()):
            raise self._wrong(key, "a whole number that is not negative")
        return None if value is None else int(value)

    def numbers(self, key: str) -> list[float] | None:
        values = self._raw.get(key)
        if values is None:
            return None
        if not isinstance(values, list):
            raise self._wrong(key, "a list of numbers")
        finite = [self._finite(key, value) for value in values]
        known = [value for value in finite if value is not None]
        return known if len(known) == len(finite) else None

    def text(self, key: str) -> str | None:
        value = self._raw.get(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def rate(self, key: str) -> float | None:
        """Requests per second; "inf" in every spelling is None."""
        value = self._raw.get(key)
        if value == math.inf or (isinstance(value, str) and value.lower() in ("inf", "infinity")):
            return None
        return self.number(key)

    def _wrong(self, key: str, wanted: str) -> ParseFailure:
        found = one_line(json.dumps(self._raw[key]), 80)
        return ParseFailure(
            f"result key {key!r} must be {wanted}, it is {found}",
            raw=f"{key}: {found}",
            hint="A --metadata item of that name replaces what the client measured: rename it and measure again.",
        )


def _latency(document: _Document) -> dict[str, Any]:
    """Return the latency fields. The client writes 0.0 for a family without a single sample; here that is null."""
    fields: dict[str, Any] = {}
    empty = [family for family in FAMILIES if document.number(f"mean_{family}_ms") == 0.0]
    for family in FAMILIES:
        names = [f"{name}_{family}_ms" for name in STATISTICS]
        fields |= dict.fromkeys(names) if family in empty else {name: document.number(name) for name in names}
    percentiles = {key: document.number(key) for key in document.keys(_PERCENTILE) if not key.startswith("p99_")}
    fields["percentiles"] = {
        key: value for key, value in percentiles.items() if value is not None and key.split("_")[1] not in empty
    }
    return fields


def _fraction(written: float | None, positions: list[float] | None, length: float | None) -> float | None:
    """Return an acceptance rate without its token counts as a fraction.

    Clients write percent, other documents fractions. Above 1 it is percent. At or below 1 the positions decide, else
    the length of a step, which is at least 1 + the fraction. Without both it is taken as a fraction, since a draft
    model that is right once in a hundred is of no use.
    """
    if written is None or not 0 <= written <= 100:
        return None
    if written > 1:
        return written / 100
    if not positions:
        return written / 100 if length is not None and 1 + written > length * (1 + ROUNDING) else written
    expected = sum(positions) / len(positions)
    return min(written, written / 100, key=lambda rate: abs(rate - expected))


def _speculation(document: _Document) -> dict[str, Any]:
    """Return the speculative-decoding fields; all null when nothing was drafted."""
    written = document.number("spec_decode_acceptance_rate")
    length = document.number("spec_decode_acceptance_length")
    positions = document.numbers("spec_decode_per_position_acceptance_rates")
    drafts, drafted, accepted = (
        document.number(f"spec_decode_{name}") for name in ("num_drafts", "draft_tokens", "accepted_tokens")
    )
    if drafted == 0:
        return {}
    if positions and max(positions) > 1:
        positions = [value / 100 for value in positions]
    if accepted is not None and drafted and 0 <= accepted <= drafted:
        rate: float | None = accepted / drafted
        length = 1 + accepted / drafts if length is None and drafts else length
    else:
        rate = _fraction(written, positions, length)
    return {
        "spec_decode_acceptance_rate": rate,
        "spec_decode_acceptance_length": length,
        "spec_decode_per_position_acceptance_rates": positions,
    }


def _failed(document: _Document, completed: int | None, asked: int | None) -> int | None:
    failed = document.count("failed")
    if failed is None and completed is not None and asked is not None:
        return max(0, asked - completed)
    return failed


def _result(found: ResultObject) -> BenchResult:
    raw = found.fields
    document = _Document(raw)
    completed, asked = document.count("completed"), document.count("num_prompts")
    goodput = "request_goodput" if "request_goodput" in raw else "request_goodput:"
    fields: dict[str, Any] = {
        **{key: document.number(key) for key in THROUGHPUTS},
        **_latency(document),
        **_speculation(document),
        "request_goodput": document.number(goodput),
        "completed": completed,
        "failed": _failed(document, completed, asked),
        "num_prompts": asked,
        "total_input_tokens": document.count("total_input_tokens"),
        "total_output_tokens": document.count("total_output_tokens"),
        "duration_s": document.number("duration"),
        "request_rate": document.rate("request_rate"),
        "max_concurrency": document.count("max_concurrency") or None,
        "backend": document.text("backend") or document.text("endpoint_type"),
        "model_id": document.text("model_id"),
        "date": document.text("date"),
    }
    keys = raw.keys() | found.detailed.keys()
    since = next((version for key, version in _SINCE if key in keys), None)
    errors = [one_line(error) for error in found.errors]
    return BenchResult(**fields, client_since=since, errors=errors, not_finite=document.not_finite)


def _checked(value: Any, text: str) -> ResultObject:
    if isinstance(value, ResultObject) and "completed" in value.fields:
        return value
    kind = type(value).__name__
    if isinstance(value, ResultObject):
        other = engine_kind(value)
        kind = f"a result of `vllm bench {other}`" if other else "a JSON object without the key 'completed'"
    raise ParseFailure(
        f"expected a result of `vllm bench serve`, found {kind}",
        raw=text,
        hint="Give the file that `vllm bench serve --save-result` wrote.",
    )


def engine_kind(value: ResultObject) -> str | None:
    """Return ``latency`` or ``throughput`` for a result of these benchmarks, else None."""
    if "avg_latency" in value.fields:
        return "latency"
    return "throughput" if "tokens_per_second" in value.fields else None


def read_values(text: str) -> list[Any]:
    """Return the JSON values of a result file; see ``read_objects``.

    Raises: ParseFailure, also for an empty file.
    """
    values = read_objects(text.removeprefix("\ufeff"))
    if not values:
        raise ParseFailure("the result file is empty", raw=text, hint="Look at the client's stderr for the reason.")
    return values


def read_result(text: str) -> list[BenchResult]:
    """Read a result file of ``vllm bench serve``, vLLM 0.9 to 0.33.

    Shapes: one model per run; a file of ``--append-result`` holds several, in the order of writing.
    Units: see BenchResult. The client's acceptance rate is percent and becomes a fraction.
    Raises: ParseFailure when the file is empty, cut, alien, or holds a value of the wrong type.
    """
    return serve_results(read_values(text), text)


def serve_results(values: list[Any], text: str) -> list[BenchResult]:
    """Return the results that were read from a file's ``text``; see ``read_result``."""
    return [_result(_checked(value, text)) for value in values]

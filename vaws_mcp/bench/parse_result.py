"""Read the result files of ``vllm bench serve`` and judge whether an iteration may be used.

The client's own exit code proves nothing: it is 0 for runs in which every request failed. Everything here is pure:
text in, models out.
"""

import json
import math
import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.core.failures import Failure
from vaws_mcp.core.sanitize import one_line, plain_text

_BLANK = re.compile(r"[ \t\r\n]*")
_ERROR_LINE = re.compile(r"(?m)^(?:[\w.]*(?:Error|Exception): |vllm\b[^:\n]*: error: ).*$")
_PERCENTILE = re.compile(r"p\d+(?:\.\d+)?_(?:ttft|tpot|itl|e2el)_ms")
_RAW_LIMIT = 2000
_LARGEST = 2**63
_FAMILIES = ("tpot", "ttft", "itl", "e2el")
_STATISTICS = ("mean", "median", "std", "p99")
_THROUGHPUTS = ("output_throughput", "request_throughput", "total_token_throughput")

Millis = Annotated[float | None, Field(description="Milliseconds; null when the client had no sample.")]


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
    not_finite: list[str] = Field(default_factory=list, description="Keys whose value was NaN or infinite.")


class Judgement(BaseModel):
    """Whether an iteration may be used, and every reason why not."""

    usable: bool = Field(description="True only when nothing speaks against the iteration.")
    problems: list[str] = Field(default_factory=list, description="One sentence for each thing that is wrong.")


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
    empty = [family for family in _FAMILIES if document.number(f"mean_{family}_ms") == 0.0]
    for family in _FAMILIES:
        names = [f"{name}_{family}_ms" for name in _STATISTICS]
        fields |= dict.fromkeys(names) if family in empty else {name: document.number(name) for name in names}
    percentiles = {key: document.number(key) for key in document.keys(_PERCENTILE) if not key.startswith("p99_")}
    fields["percentiles"] = {
        key: value for key, value in percentiles.items() if value is not None and key.split("_")[1] not in empty
    }
    return fields


def _fraction(written: float | None, positions: list[float] | None) -> float | None:
    """Return an acceptance rate without its token counts as a fraction.

    Clients write percent, other documents fractions. Above 1 it is percent. At or below 1 the positions decide, and
    without them it is taken as a fraction, since a draft model that is right once in a hundred is of no use.
    """
    if written is None or not 0 <= written <= 100:
        return None
    if written > 1:
        return written / 100
    if not positions:
        return written
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
        rate = _fraction(written, positions)
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


def _result(raw: dict[str, Any]) -> BenchResult:
    document = _Document(raw)
    completed, asked = document.count("completed"), document.count("num_prompts")
    goodput = "request_goodput" if "request_goodput" in raw else "request_goodput:"
    fields: dict[str, Any] = {
        **{key: document.number(key) for key in _THROUGHPUTS},
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
    return BenchResult(**fields, not_finite=document.not_finite)


def _objects(text: str) -> list[Any]:
    """Return the JSON values that stand one after another in a file, as ``--append-result`` writes them."""
    decoder = json.JSONDecoder()
    found: list[Any] = []
    position = _skip_blank(text, 0)
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
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


def _check_kind(value: Any, text: str) -> dict[str, Any]:
    if isinstance(value, dict) and "completed" in value:
        return value
    kind = "a JSON object without the key 'completed'" if isinstance(value, dict) else type(value).__name__
    if isinstance(value, dict) and "avg_latency" in value:
        kind = "a result of `vllm bench latency`"
    elif isinstance(value, dict) and "tokens_per_second" in value:
        kind = "a result of `vllm bench throughput`"
    raise ParseFailure(
        f"expected a result of `vllm bench serve`, found {kind}",
        raw=text,
        hint="Give the file that `vllm bench serve --save-result` wrote.",
    )


def read_result(text: str) -> list[BenchResult]:
    """Read a result file of ``vllm bench serve``, vLLM 0.9 to 0.33.

    Shapes: one model per run; a file of ``--append-result`` holds several, in the order of writing.
    Units: see BenchResult. The client's acceptance rate is percent and becomes a fraction.
    Raises: ParseFailure when the file is empty, cut, alien, or holds a value of the wrong type.
    """
    values = _objects(text.removeprefix("\ufeff"))
    if not values:
        raise ParseFailure("the result file is empty", raw=text, hint="Look at the client's stderr for the reason.")
    return [_result(_check_kind(value, text)) for value in values]


def judge_iteration(
    result: BenchResult | None, *, expected_prompts: int | None, exit_code: int | None, fresh: bool
) -> Judgement:
    """Say whether one iteration may be used.

    ``result`` is None when the client left no file, ``exit_code`` when it is unknown, ``expected_prompts`` when nobody
    but the file says how many. ``fresh`` says that the file is newer than the start.
    """
    problems: list[str] = []
    if exit_code != 0:
        problems.append(f"The client's exit code is {'unknown' if exit_code is None else exit_code}, not 0.")
    if result is None:
        problems.append("The client left no result file.")
        return Judgement(usable=False, problems=problems)
    if not fresh:
        problems.append("The result file is older than the start of this iteration.")
    problems += _request_problems(result, expected_prompts) + _output_problems(result)
    return Judgement(usable=not problems, problems=problems)


def _request_problems(result: BenchResult, expected: int | None) -> list[str]:
    problems: list[str] = []
    if result.num_prompts is None or result.completed is None:
        problems.append("The result does not say how many requests were asked for and completed.")
    elif result.completed != result.num_prompts or result.completed == 0:
        problems.append(f"{result.completed} of {result.num_prompts} requests completed.")
    if expected is not None and result.num_prompts not in (None, expected):
        problems.append(f"The result is for {result.num_prompts} requests, {expected} were asked for.")
    if result.failed:
        problems.append(f"{result.failed} of {result.num_prompts} requests failed.")
    return problems


def _output_problems(result: BenchResult) -> list[str]:
    problems: list[str] = []
    if not result.total_output_tokens:
        problems.append(f"The requests produced {_said(result.total_output_tokens)} output tokens.")
    for name in _THROUGHPUTS:
        value: float | None = getattr(result, name)
        if value is None or not value > 0:
            problems.append(f"{name} is {_said(value)}, it must be above 0.")
    problems += [f"{key} is not a finite number." for key in result.not_finite]
    return problems


def _said(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def metrics(result: BenchResult) -> dict[str, float | None]:
    """Return the compact metrics of one iteration, in a fixed order; percentiles asked for come last."""
    latency = [f"{name}_{family}_ms" for family in _FAMILIES for name in _STATISTICS if name != "std"]
    names = [*_THROUGHPUTS, *latency, "spec_decode_acceptance_rate", "spec_decode_acceptance_length"]
    return {name: getattr(result, name) for name in names} | dict(result.percentiles)


def last_error_line(stderr: str) -> str | None:
    """Return the last line that names an exception or a refused argument, else None.

    The last line of the stream itself is often noise of a closing HTTP client or of a library at exit.
    """
    lines = _ERROR_LINE.findall(plain_text(stderr))
    return one_line(lines[-1], 500) if lines else None

"""What the clients of ``vllm bench`` print: the only place of some figures, and a check of the result file.

Everything here is pure: text in, models out. Text that says nothing of interest gives empty models.
Source: the summary tables of ``vllm bench serve|latency|throughput``, 0.9 to 0.33.
"""

import re

from pydantic import BaseModel, Field

from vaws_mcp.bench.judge import last_error_line
from vaws_mcp.bench.parse_result import BenchResult
from vaws_mcp.core.sanitize import plain_text

_NUMBER = r"(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_ROW = re.compile(rf"(?m)^\s*(\S[^:\n]*):\s+{_NUMBER}\s*$")
_TITLE = "Serving Benchmark Result"
_VERSION = re.compile(
    r"vllm bench \w+\[(?P<usage>[\w.+-]+)\]: error:"
    r"|LLM engine \(v(?P<engine>\d[\w.+-]*)\)"
    r"|vLLM version:? v?(?P<said>\d[\w.+-]*)"
)
_NAMESPACE = re.compile(r"(?m)^Namespace\((.*)\)$")
_ARGUMENT = re.compile(r"(?<![\w])(\w+)=('[^']*'|[^,()\s]+)")
_LATENCY = re.compile(rf"(?m)^(?:\(.*?\) )?Avg latency:\s+{_NUMBER} seconds")
_PERCENTILE = re.compile(rf"(?m)^(?:\(.*?\) )?(\d+)% percentile latency:\s+{_NUMBER} seconds")
_THROUGHPUT = re.compile(
    rf"Throughput:\s+{_NUMBER} requests/s, {_NUMBER} (?:total )?tokens/s(?:, {_NUMBER} output tokens/s)?"
)
_PROMPT_TOKENS = re.compile(r"(?m)Total num prompt tokens:\s+(\d+)")
_OUTPUT_TOKENS = re.compile(r"(?m)Total num output tokens:\s+(\d+)")
_LABELS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "maximum request concurrency": "max_concurrency",
    "benchmark duration (s)": "duration_s",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput (req/s)": "request_throughput",
    "request goodput (req/s)": "request_goodput",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
    "acceptance length": "spec_decode_acceptance_length",
}
_STATISTIC = re.compile(r"(mean|median|std|p\d+(?:\.\d+)?) (ttft|tpot|itl|e2el) \(ms\)")
_COMPARED = (
    *("completed", "failed", "total_input_tokens", "total_output_tokens", "duration_s"),
    *("request_throughput", "output_throughput", "total_token_throughput", "mean_ttft_ms", "mean_tpot_ms"),
)


class ServeConsole(BaseModel):
    """The summary table of ``vllm bench serve`` in the names and units of BenchResult; empty without a table."""

    figures: dict[str, float] = Field(default_factory=dict, description="Figures, rounded as the table has them.")
    arguments: dict[str, str] = Field(default_factory=dict, description="Arguments the client says it was given.")
    version: str | None = Field(default=None, description="Version that the client states.")
    error: str | None = Field(default=None, description="Last line that names an error.")


class EngineConsole(BaseModel):
    """What ``vllm bench latency`` and ``vllm bench throughput`` print. Units: seconds, per second, tokens."""

    avg_latency_s: float | None = None
    percentiles_s: dict[str, float] = Field(default_factory=dict, description="Latency by percentile, such as 99.")
    request_throughput: float | None = None
    total_token_throughput: float | None = None
    output_throughput: float | None = None
    total_input_tokens: int | None = None
    total_output_tokens: int | None = None
    version: str | None = None
    error: str | None = None


def parse_serve_console(text: str) -> ServeConsole:
    """Read the output of ``vllm bench serve``; the last table counts, since a log may hold several runs."""
    text = plain_text(text)
    namespace = _NAMESPACE.findall(text)
    arguments = dict(_ARGUMENT.findall(namespace[-1])) if namespace else {}
    return ServeConsole(
        figures=_table(text.rpartition(_TITLE)[2]) if _TITLE in text else {},
        arguments={name: value.strip("'") for name, value in arguments.items() if "key" not in name},
        version=_version(text),
        error=last_error_line(text),
    )


def _table(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for shown, value in _ROW.findall(text.split("\n" + "=" * 20, 1)[0]):
        label = shown.strip().lower()
        statistic = _STATISTIC.fullmatch(label)
        if statistic:
            found[f"{statistic[1]}_{statistic[2]}_ms"] = float(value)
        elif label == "acceptance rate (%)":
            found["spec_decode_acceptance_rate"] = float(value) / 100
        elif label in _LABELS:
            found[_LABELS[label]] = float(value)
    return found


def _version(text: str) -> str | None:
    found = list(_VERSION.finditer(text))
    return next((value for value in found[-1].groups() if value), None) if found else None


def disagreements(console: ServeConsole, result: BenchResult) -> list[str]:
    """Return a sentence for each figure that the table and the file state differently: they are of different runs."""
    problems: list[str] = []
    for name in _COMPARED:
        said, written = console.figures.get(name), getattr(result, name)
        if said is None or written is None:
            continue
        if abs(said - written) > 0.0051 + 1e-6 * abs(written):
            problems.append(f"The console says {name} {said:g}, the file {written:g}: they are not of the same run.")
    return problems


def parse_engine_console(text: str) -> EngineConsole:
    """Read the output of ``vllm bench latency`` or ``vllm bench throughput``."""
    text = plain_text(text)
    latency, rates = _LATENCY.findall(text), _THROUGHPUT.findall(text)
    console = EngineConsole(version=_version(text), error=last_error_line(text))
    if latency:
        console.avg_latency_s = float(latency[-1])
        console.percentiles_s = {rank: float(value) for rank, value in _PERCENTILE.findall(text)}
    if rates:
        requests, total, output = rates[-1]
        console.request_throughput, console.total_token_throughput = float(requests), float(total)
        console.output_throughput = float(output) if output else None
        console.total_input_tokens = _last_count(_PROMPT_TOKENS, text)
        console.total_output_tokens = _last_count(_OUTPUT_TOKENS, text)
    return console


def _last_count(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.findall(text)
    return int(found[-1]) if found else None

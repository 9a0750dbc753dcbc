"""Numbers, result file and console text of ``vllm bench serve`` 0.32."""

import argparse
import math
from dataclasses import dataclass
from typing import Any

from vaws_mcp.sim.bench_client import Outcome

NAMES = {
    "ttft": ("TTFT", "Time to First Token"),
    "tpot": ("TPOT", "Time per Output Token (excl. 1st token)"),
    "itl": ("ITL", "Inter-token Latency"),
    "e2el": ("E2EL", "End-to-end Latency"),
}
WIDTH = 50
DETAILED = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors")


@dataclass(frozen=True)
class Speculation:
    """Speculative decoding during the run, as the difference of the server's counters."""

    drafts: int
    drafted: int
    accepted: int
    accepted_at: tuple[int, ...]

    def fields(self) -> dict[str, Any]:
        """The keys of the result file: the rate in percent, rates per position as fractions."""
        return {
            "spec_decode_acceptance_rate": self.accepted / self.drafted * 100 if self.drafted else 0.0,
            "spec_decode_acceptance_length": 1 + self.accepted / self.drafts,
            "spec_decode_num_drafts": self.drafts,
            "spec_decode_draft_tokens": self.drafted,
            "spec_decode_accepted_tokens": self.accepted,
            "spec_decode_per_position_acceptance_rates": [count / self.drafts for count in self.accepted_at],
        }


@dataclass(frozen=True)
class Run:
    """A finished benchmark."""

    args: argparse.Namespace
    outcomes: list[Outcome]
    began: float
    duration: float
    speculation: Speculation | None


def percentile(values: list[float], rank: float) -> float:
    """Linear interpolation between the closest ranks; 0 for no values, as vLLM reports it."""
    if not values:
        return 0.0
    ordered = sorted(values)
    position = (len(ordered) - 1) * rank / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _deviation(values: list[float]) -> float:
    mean = _mean(values)
    return math.sqrt(_mean([(value - mean) ** 2 for value in values]))


def _samples(good: list[Outcome]) -> dict[str, list[float]]:
    tpots = [(o.latency - o.ttft) / (o.output_tokens - 1) for o in good if o.output_tokens > 1]
    return {
        "ttft": [o.ttft for o in good],
        "tpot": tpots,
        "itl": [gap for o in good for gap in o.itls],
        "e2el": [o.latency for o in good],
    }


def _peaks(good: list[Outcome], began: float, duration: float) -> tuple[float, int]:
    """Most tokens in one second, and most requests open within one second, counted in whole seconds."""
    if not good:
        return 0.0, 0
    seconds = math.ceil(duration) + 2
    tokens, open_requests = [0] * seconds, [0] * seconds
    for outcome in good:
        for arrival in outcome.arrivals:
            tokens[int(arrival - began)] += 1
        first, last = int(outcome.started - began), int(outcome.started + outcome.latency - began)
        for second in range(first, last + 1):
            open_requests[second] += 1
    return float(max(tokens)), max(open_requests)


def _goodput(args: argparse.Namespace, good: list[Outcome], duration: float) -> float | None:
    if not args.goodput:
        return None
    limits = {name: float(value) / 1000 for name, _, value in (word.partition(":") for word in args.goodput)}
    fine = 0
    for outcome in good:
        samples = {name: _mean(values) for name, values in _samples([outcome]).items()}
        fine += all(samples[name] <= limit for name, limit in limits.items())
    return fine / duration


def percentiles(args: argparse.Namespace) -> tuple[list[str], list[float]]:
    """Return the metrics and ranks for which percentiles were asked."""
    metrics: str = args.percentile_metrics or "ttft,tpot,itl"
    return metrics.split(","), [float(word) for word in args.metric_percentiles.split(",")]


def rank_name(rank: float) -> str:
    """Write a rank as vLLM does: ``99``, ``99.9``."""
    return str(int(rank)) if rank == int(rank) else str(rank)


def result(run: Run, head: dict[str, Any]) -> dict[str, Any]:
    """Return all numbers of a run, in the order and with the names of the result file, details included."""
    good = [o for o in run.outcomes if o.success]
    inputs, outputs = sum(o.prompt_tokens for o in good), sum(o.output_tokens for o in good)
    peak, concurrent = _peaks(good, run.began, run.duration)
    fields = head | {
        "duration": run.duration,
        "completed": len(good),
        "failed": len(run.outcomes) - len(good),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(good) / run.duration,
        "request_goodput": _goodput(run.args, good, run.duration),
        "output_throughput": outputs / run.duration,
        "total_token_throughput": (inputs + outputs) / run.duration,
        "input_lens": [o.prompt_tokens for o in run.outcomes],
        "output_lens": [o.output_tokens for o in run.outcomes],
        "ttfts": [o.ttft for o in run.outcomes],
        "itls": [o.itls for o in run.outcomes],
        "latencies": [o.latency for o in run.outcomes],
        "start_times": [o.started for o in run.outcomes],
        "queue_times": [max(0.0, o.started - run.began) for o in run.outcomes],
        "generated_texts": [o.text for o in run.outcomes],
        "errors": [o.error for o in run.outcomes],
        "max_output_tokens_per_s": peak,
        "max_concurrent_requests": concurrent,
        "rtfx": 0.0,
    }
    fields |= run.speculation.fields() if run.speculation else {}
    metrics, ranks = percentiles(run.args)
    samples = _samples(good)
    for name in metrics:
        values = [value * 1000 for value in samples[name]]
        fields[f"mean_{name}_ms"] = _mean(values)
        fields[f"median_{name}_ms"] = percentile(values, 50)
        fields[f"std_{name}_ms"] = _deviation(values)
        for rank in ranks:
            fields[f"p{rank_name(rank)}_{name}_ms"] = percentile(values, rank)
    return fields


def _line(label: str, value: float | int) -> str:
    text = f"{value:<10d}" if isinstance(value, int) else f"{value:<10.2f}"
    return f"{label:<40} {text}"


def console(run: Run, fields: dict[str, Any]) -> list[str]:
    """Return the console table of a run."""
    lines = [f"{' Serving Benchmark Result ':=^{WIDTH}}"]
    lines += [_line("Successful requests:", fields["completed"]), _line("Failed requests:", fields["failed"])]
    if run.args.max_concurrency is not None:
        lines.append(_line("Maximum request concurrency:", run.args.max_concurrency))
    if run.args.request_rate != math.inf:
        lines.append(_line("Request rate configured (RPS):", float(run.args.request_rate)))
    lines.append(_line("Benchmark duration (s):", fields["duration"]))
    lines.append(_line("Total input tokens:", fields["total_input_tokens"]))
    lines.append(_line("Total generated tokens:", fields["total_output_tokens"]))
    lines.append(_line("Request throughput (req/s):", fields["request_throughput"]))
    if fields["request_goodput"] is not None:
        lines.append(_line("Request goodput (req/s):", fields["request_goodput"]))
    lines.append(_line("Output token throughput (tok/s):", fields["output_throughput"]))
    lines.append(_line("Peak output token throughput (tok/s):", fields["max_output_tokens_per_s"]))
    lines.append(_line("Peak concurrent requests:", float(fields["max_concurrent_requests"])))
    lines.append(_line("Total token throughput (tok/s):", fields["total_token_throughput"]))
    metrics, ranks = percentiles(run.args)
    for name in metrics:
        short, long = NAMES[name]
        lines.append(f"{long:-^{WIDTH}}")
        lines.append(_line(f"Mean {short} (ms):", fields[f"mean_{name}_ms"]))
        lines.append(_line(f"Median {short} (ms):", fields[f"median_{name}_ms"]))
        for rank in map(rank_name, ranks):
            lines.append(_line(f"P{rank} {short} (ms):", fields[f"p{rank}_{name}_ms"]))
    if run.speculation:
        lines += _speculation_lines(fields)
    return [*lines, "=" * WIDTH]


def _speculation_lines(fields: dict[str, Any]) -> list[str]:
    rates: list[float] = fields["spec_decode_per_position_acceptance_rates"]
    return [
        f"{'Speculative Decoding':-^{WIDTH}}",
        _line("Acceptance rate (%):", fields["spec_decode_acceptance_rate"]),
        _line("Acceptance length:", fields["spec_decode_acceptance_length"]),
        _line("Drafts:", fields["spec_decode_num_drafts"]),
        _line("Draft tokens:", fields["spec_decode_draft_tokens"]),
        _line("Accepted tokens:", fields["spec_decode_accepted_tokens"]),
        "Per-position acceptance (%):",
        *(_line(f"  Position {index}:", rate * 100) for index, rate in enumerate(rates)),
    ]

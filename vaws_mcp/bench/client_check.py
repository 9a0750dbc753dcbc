"""Holding the client's figures against what was asked for and what the service counted; failures of one iteration."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaws_mcp.bench.client import ClientOutcome
from vaws_mcp.bench.judge import Judgement, last_error_line
from vaws_mcp.bench.parse_metrics import Growth
from vaws_mcp.bench.parse_result import BenchResult
from vaws_mcp.bench.requested import arguments_of, asked_tokens, shortfall
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.redact import redact_text

RATE_TOLERANCE = 0.02  # the service also counts the client's first request and its warmups
OWN_REQUESTS = 2  # of the client besides those that it measures: the ready check and its first request
TOKEN_TOLERANCE = 0.01  # a client without usage figures counts tokens by tokenising the text again


@dataclass(frozen=True)
class Checked:
    """Facts of an iteration for its result, and what should be known about them."""

    facts: dict[str, Any]
    warnings: list[str] = field(default_factory=list[str])


def check_client(result: BenchResult, ended: ClientOutcome, bench_args: tuple[str, ...]) -> Checked:
    """Return requests and tokens asked for and achieved, and what the service counted. Pure.

    Shapes: ``requests`` asked, completed, failed; ``tokens`` output_asked, output, input; ``service_counted`` or null;
    ``spec_decode_per_position_acceptance_rates`` or null.
    """
    arguments = arguments_of(bench_args)
    asked = asked_tokens(arguments, result.num_prompts)
    facts: dict[str, Any] = {
        "requests": {"asked": result.num_prompts, "completed": result.completed, "failed": result.failed},
        "tokens": {
            "output_asked": asked.output_tokens if asked else None,
            "output": result.total_output_tokens,
            "input": result.total_input_tokens,
        },
        "spec_decode_per_position_acceptance_rates": result.spec_decode_per_position_acceptance_rates,
        "service_counted": ended.counted.as_json() if ended.counted else None,
    }
    short = shortfall(asked, result.total_output_tokens)
    others = others_requests(result, ended.counted, arguments.get("num_warmups", "0"))
    return Checked(facts, [*filter(None, [short, others]), *contradictions(result, ended.counted)])


def others_requests(result: BenchResult, counted: Growth | None, warmups: str) -> str | None:
    """Return a sentence when the service finished more requests than the client can have sent. Pure."""
    if counted is None or counted.reset or counted.requests is None or result.completed is None:
        return None
    own = result.completed + OWN_REQUESTS + (int(warmups) if warmups.isdecimal() else 0)
    if counted.requests <= own:
        return None
    return (
        f"The service finished {counted.requests:.0f} requests, {result.completed} of them the client's: "
        "somebody else used it while it was measured."
    )


def contradictions(result: BenchResult, counted: Growth | None) -> list[str]:
    """Return a sentence for each figure of the client that its service's counters contradict. Pure."""
    if counted is None:
        return []
    if counted.reset:
        return ["The service's counters fell while it was measured: it was restarted, or something else answered."]
    found: list[str] = []
    tokens, generated = result.total_output_tokens, counted.generation_tokens
    if tokens is not None and generated is not None and generated < tokens * (1 - TOKEN_TOLERANCE):
        found.append(f"The client counts {tokens} generated tokens, the service {generated:.0f}.")
    theirs, ours = result.spec_decode_acceptance_rate, counted.acceptance_rate
    if theirs is not None and ours is not None and abs(theirs - ours) > RATE_TOLERANCE:
        found.append(f"The client's acceptance rate is {theirs:.3f}, by the service's counters it is {ours:.3f}.")
    if theirs is None and counted.draft_tokens:
        found.append(f"The service drafted {counted.draft_tokens:.0f} tokens, of which the client says nothing.")
    return found


def result_missing(ended: ClientOutcome, log: Path) -> Failure:
    """Build the failure of a client that left no result."""
    why = last_error_line(ended.out + "\n" + ended.err) or f"exit code {ended.exit_code}"
    return Failure(
        "bench_result_missing",
        f"the benchmark client wrote no result: {redact_text(why)}",
        layer="remote_workload",
        hint=f"Its output is in {log}.",
        phase="bench",
        fields=ended.evidence(),
    )


def unusable(ended: ClientOutcome, result: BenchResult, judged: Judgement, log: Path) -> Failure:
    """Build the failure of an iteration that may not be used."""
    return Failure(
        "bench_unusable",
        f"the benchmark measured nothing usable: {'; '.join(judged.problems)}",
        layer="remote_workload",
        hint=f"The client's output is in {log}.",
        phase="bench",
        fields={**ended.evidence(), "problems": judged.problems, "raw_metrics": result.model_dump(mode="json")},
        refs={"bench_log": str(log)},
    )

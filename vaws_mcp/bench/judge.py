"""Whether an iteration of the benchmark client may be used, and its compact metrics.

The client's own exit code proves nothing: it is 0 for runs in which every request failed.
"""

import re

from pydantic import BaseModel, Field

from vaws_mcp.bench.parse_result import FAMILIES, STATISTICS, THROUGHPUTS, BenchResult
from vaws_mcp.core.sanitize import one_line, plain_text

_ERROR_LINE = re.compile(r"(?m)^(?:\([\w ]+pid=\d+\) )?(?:[\w.]*(?:Error|Exception): |vllm\b[^:\n]*: error: ).*$")


class Judgement(BaseModel):
    """Whether an iteration may be used, and every reason why not."""

    usable: bool = Field(description="True only when nothing speaks against the iteration.")
    problems: list[str] = Field(default_factory=list, description="One sentence for each thing that is wrong.")


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
        why = f" First error: {result.errors[0]}" if result.errors else ""
        problems.append(f"{result.failed} of {result.num_prompts} requests failed.{why}")
    return problems


def _output_problems(result: BenchResult) -> list[str]:
    problems: list[str] = []
    if not result.total_output_tokens:
        problems.append(f"The requests produced {_said(result.total_output_tokens)} output tokens.")
    for name in THROUGHPUTS:
        value: float | None = getattr(result, name)
        if value is None or not value > 0:
            problems.append(f"{name} is {_said(value)}, it must be above 0.")
    problems += [f"{key} is not a finite number." for key in result.not_finite]
    return problems


def _said(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"


def metrics(result: BenchResult) -> dict[str, float | None]:
    """Return the compact metrics of one iteration, in a fixed order; percentiles asked for come last."""
    latency = [f"{name}_{family}_ms" for family in FAMILIES for name in STATISTICS if name != "std"]
    names = [*THROUGHPUTS, *latency, "spec_decode_acceptance_rate", "spec_decode_acceptance_length"]
    return {name: getattr(result, name) for name in names} | dict(result.percentiles)


def last_error_line(stderr: str) -> str | None:
    """Return the last line that names an exception or a refused argument, else None.

    The last line of the stream itself is often noise of a closing HTTP client or of a library at exit.
    """
    lines = _ERROR_LINE.findall(plain_text(stderr))
    return one_line(lines[-1], 500) if lines else None

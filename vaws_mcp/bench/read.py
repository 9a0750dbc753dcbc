"""Reading result files that anyone has, of any version of the client."""

from pathlib import Path
from typing import Any

from vaws_mcp.bench.judge import judge_iteration, metrics
from vaws_mcp.bench.parse_console import (
    EngineConsole,
    ServeConsole,
    disagreements,
    parse_engine_console,
    parse_serve_console,
)
from vaws_mcp.bench.parse_engine import (
    LatencyResult,
    agrees,
    engine_metrics,
    engine_problems,
    engine_result,
)
from vaws_mcp.bench.parse_result import BenchResult, engine_kind, read_values, serve_results
from vaws_mcp.bench.read_models import ReadResult
from vaws_mcp.bench.requested import asked_tokens, shortfall
from vaws_mcp.bench.result_objects import ParseFailure, ResultObject
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.redact import redact_text

MAX_FILE_BYTES = 512 << 20
MAX_CONSOLE_BYTES = 16 << 20
_SHOWN_ARGUMENTS = (
    *("backend", "endpoint", "dataset_name", "num_prompts", "max_concurrency", "request_rate", "temperature"),
    *("random_input_len", "random_output_len", "custom_output_len", "ignore_eos", "seed"),
)


def read_files(files: list[str], console: str | None) -> list[ReadResult]:
    """Read each file; one that cannot be read is a result that says why. A console belongs to the only result."""
    found: list[ReadResult] = []
    for file in files:
        found += read_file(file, console)
    return found


def read_file(file: str, console: str | None) -> list[ReadResult]:
    """Return the results in one file, which is no longer in memory afterwards."""
    try:
        text = local_text(file, MAX_FILE_BYTES)
        values = read_values(text)
        kind = engine_kind(values[0]) if len(values) == 1 and isinstance(values[0], ResultObject) else None
        if kind is not None:
            return [_engine(file, values[0], None if console is None else parse_engine_console(console))]
        results = serve_results(values, text)
    except Failure as failure:
        problems = [failure.message]
        said = parse_serve_console(console).error if console else None
        if said:
            problems.append(f"The console ends with: {redact_text(said)}")
        return [ReadResult(file=file, status="unreadable", usable=False, problems=problems)]
    said = parse_serve_console(console) if console is not None else ServeConsole()
    return [_serve(file, index, result, said) for index, result in enumerate(results)]


def local_text(file: str, limit: int) -> str:
    """Return the text of a file of this machine.

    Raises: ParseFailure when it cannot be read, is larger than the limit or no text.
    """
    path = Path(file).expanduser()
    hint = "Give the path of a file that the client wrote."
    try:
        if not path.is_file():
            raise ParseFailure(f"{file} is no file", raw="", hint=hint)
        size = path.stat().st_size
        if size > limit:
            raise ParseFailure(f"{file} has {size >> 20} MiB, more than {limit >> 20}", raw="", hint=hint)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ParseFailure(f"{file} is no UTF-8 text", raw="", hint=hint) from None
    except OSError as error:
        raise ParseFailure(f"{file} cannot be read: {error.strerror}", raw="", hint=hint) from None


def _serve(file: str, index: int, result: BenchResult, console: ServeConsole) -> ReadResult:
    judged = judge_iteration(result, expected_prompts=None, exit_code=0, fresh=True)
    asked = asked_tokens(console.arguments, result.num_prompts)
    problems = judged.problems + disagreements(console, result)
    short = shortfall(asked, result.total_output_tokens)
    if short and judged.usable:
        problems.append(short)
    details: dict[str, Any] = {
        **{name: getattr(result, name) for name in ("num_prompts", "completed", "failed")},
        "output_tokens_asked": asked.output_tokens if asked else None,
        "output_tokens": result.total_output_tokens,
        "input_tokens": result.total_input_tokens,
        **{name: getattr(result, name) for name in ("duration_s", "request_rate", "max_concurrency", "backend")},
        **{name: getattr(result, name) for name in ("model_id", "date")},
        "spec_decode_per_position_acceptance_rates": result.spec_decode_per_position_acceptance_rates,
        "errors": result.errors,
        "arguments": {name: console.arguments[name] for name in _SHOWN_ARGUMENTS if name in console.arguments},
    }
    return ReadResult(
        file=file,
        index=index,
        kind="serve",
        status="unusable" if problems else "ok",
        usable=not problems,
        problems=[redact_text(problem) for problem in problems],
        metrics=metrics(result),
        details=details,
        client_version=console.version,
        client_since=result.client_since,
    )


def _engine(file: str, found: ResultObject, console: EngineConsole | None) -> ReadResult:
    result = engine_result(found, console)
    problems = engine_problems(result)
    if isinstance(result, LatencyResult):
        kind = "latency"
        said, written = (console.avg_latency_s if console else None), result.avg_latency_s
        if said is not None and written is not None and abs(said - written) > 1e-6 * written:
            problems.append(f"The console says avg_latency_s {said:g}, the file {written:g}: not of the same run.")
    else:
        kind = "throughput"
        if console is not None and console.total_token_throughput is not None and not agrees(console, result):
            problems.append("The console and the file state another throughput: they are not of the same run.")
    return ReadResult(
        file=file,
        kind=kind,
        status="unusable" if problems else "ok",
        usable=not problems,
        problems=problems,
        metrics=engine_metrics(result),
        details=result.model_dump(exclude=set(engine_metrics(result)), exclude_none=True),
        client_version=console.version if console else None,
    )

"""bench_read."""

import anyio.to_thread

from vaws_mcp.bench.read import MAX_CONSOLE_BYTES, local_text, read_files
from vaws_mcp.bench.read_models import BenchReadRequest, BenchReadResult, ReadResult
from vaws_mcp.bench.result_objects import ParseFailure
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.operation import operation


def check_read(request: BenchReadRequest) -> None:
    """Refuse one console for several files.

    Raises: Refused ``argument_invalid``.
    """
    if request.console is not None and len(request.files) > 1:
        raise Refused(
            "argument_invalid",
            "console is the output of one run, but several files were given",
            hint="Call bench_read once for each file with its console.",
        )


@operation(
    "bench_read",
    title="Read benchmark results",
    effect="read",
    idempotent=True,
    positionals=("files...",),
    aliases=(("file", "files"), ("paths", "files")),
    check=check_read,
)
async def bench_read(request: BenchReadRequest, ctx: Context) -> BenchReadResult:  # noqa: ARG001 - the form of every operation
    """Read result files of `vllm bench` that lie on this machine, of any vLLM from 0.9 to 0.33, and say what is wrong.

    No endpoint and no task are needed. Figures have one name and unit whatever the version. A file is usable when
    every request was completed and tokens were produced. With `console` the client's output must agree, and adds the
    output tokens per second of `vllm bench throughput`, which no result file holds.
    """
    console: str | None = None
    if request.console is not None:
        try:
            console = await anyio.to_thread.run_sync(local_text, request.console, MAX_CONSOLE_BYTES)
        except ParseFailure as failure:
            raise Refused(
                "console_unreadable", failure.message, hint="Give the file with the client's output."
            ) from None
    results = await anyio.to_thread.run_sync(read_files, list(request.files), console)
    _require_one(request, results)
    return _answer(results)


def _require_one(request: BenchReadRequest, results: list[ReadResult]) -> None:
    if request.console is not None and len(results) > 1:
        raise Refused(
            "argument_invalid",
            f"{request.files[0]} holds {len(results)} results, and console is the output of one run",
            hint="Leave console out.",
        )


def _answer(results: list[ReadResult]) -> BenchReadResult:
    states = {result.status for result in results}
    status = next((state for state in ("unreadable", "unusable") if state in states), "ok")
    usable = sum(result.usable for result in results)
    answer = BenchReadResult(
        status=status,
        outcome="success" if status == "ok" else "failed",
        usable=status == "ok",
        problems=[_located(problem, result, results) for result in results for problem in result.problems],
        metrics=results[0].metrics if len(results) == 1 else {},
        results=results,
        summary=f"{usable} of {len(results)} result{'' if len(results) == 1 else 's'} usable",
    )
    if answer.problems:
        answer.summary += f": {answer.problems[0]}"
    return answer


def _located(problem: str, result: ReadResult, results: list[ReadResult]) -> str:
    """Say which result a problem is of, when there are several."""
    return problem if len(results) == 1 else f"{result.file} [{result.index}]: {problem}"

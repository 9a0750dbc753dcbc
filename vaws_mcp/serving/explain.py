"""explain_failure."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import anyio

from vaws_mcp.coordinator.failures import no_execution
from vaws_mcp.coordinator.records import ExecutionRecord, find_execution
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import connected
from vaws_mcp.endpoint.registry import present
from vaws_mcp.serving.classify import CHUNK, UNCLASSIFIED, Classifier, Diagnosis
from vaws_mcp.serving.logs import classify_logs
from vaws_mcp.serving.models import ExplainFailureRequest, ExplainFailureResult
from vaws_mcp.serving.records import service_record
from vaws_mcp.taskstore.tasks import require_task

STDIN = "-"
SOURCES = ("log", "text", "execution_id", "service")


def check_explain(request: ExplainFailureRequest) -> None:
    """Refuse a request that names no log, or several.

    Raises: Refused ``log_missing``.
    """
    given = [name for name in SOURCES if getattr(request, name) is not None]
    if len(given) != 1:
        what = f"not {' and '.join(given)}" if given else "and none was given"
        raise Refused(
            "log_missing",
            f"explain_failure needs exactly one of {', '.join(SOURCES)}, {what}",
            hint="For example log=FILE, or service=vllm with a context_file.",
        )


@operation(
    "explain_failure",
    title="Explain a failed start",
    effect="read",
    idempotent=True,
    timeout_s=None,
    aliases=(("file", "log"), ("path", "log")),
    check=check_explain,
)
async def explain_failure(request: ExplainFailureRequest, ctx: Context) -> ExplainFailureResult:
    """Find why `vllm serve` failed in any log of it: the first cause, its line, what to do, and what only followed.

    A log file needs no task and no endpoint. A log of unknown kind is `unclassified`, with its end.
    """
    if request.text is not None:
        classifier = Classifier()
        classifier.feed(request.text)
        return _answer(classifier, "text")
    if request.log is not None:
        from_stdin = request.log == STDIN
        if from_stdin and ctx.wait_s is not None:
            raise Refused("stdin_taken", "standard input carries the protocol here", hint="Pass log=FILE or text.")
        read = _reader(request.log)
        return _answer(await anyio.to_thread.run_sync(read), "stdin" if from_stdin else "file")
    record = _record(ctx, request)
    endpoint = await connected(ctx, present(ctx.state_dir, record.endpoint))
    return _answer(await classify_logs(endpoint, record), "execution")


def _record(ctx: Context, request: ExplainFailureRequest) -> ExecutionRecord:
    task = require_task(ctx, request.context_file, "explain_failure of an execution")
    if request.execution_id is not None:
        record, named = find_execution(task.directory, request.execution_id), f"execution {request.execution_id}"
    else:
        record, named = service_record(task, request.service or ""), f"service {request.service}"
    if record is None:
        raise no_execution(f"{named} of task {task.task_id}")
    return record


def _reader(name: str) -> Callable[[], Classifier]:
    """Return the work of reading a log, for a thread of its own; it may be long, or come slowly."""

    def read() -> Classifier:
        classifier = Classifier()
        with _opened(name) as stream:
            while piece := stream.read(CHUNK):
                classifier.feed(piece)
        return classifier

    return read


def _opened(name: str) -> Any:
    """Open a log as text; bytes that are no UTF-8 are replaced.

    Raises: Refused ``log_unreadable``.
    """
    if name == STDIN:
        stream: IO[str] = open(sys.stdin.fileno(), encoding="utf-8", errors="replace", newline="", closefd=False)  # noqa: SIM115 - closed below
        return stream
    path = Path(name).expanduser()
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a directory")
        return path.open(encoding="utf-8", errors="replace", newline="")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Refused("log_unreadable", f"cannot read {path}: {why}", hint="Give a log file of this machine.") from None


def _answer(classifier: Classifier, source: str) -> ExplainFailureResult:
    diagnosis = classifier.diagnosis()
    unknown = diagnosis.cls == UNCLASSIFIED
    return ExplainFailureResult.model_validate(
        {
            **diagnosis.fields(),
            "failure": diagnosis.failure,
            "phases": classifier.timeline.phases(),
            "tail": diagnosis.tail if unknown else None,
            "source": source,
            "hint": diagnosis.hint,
            "status": diagnosis.cls,
            "summary": _sentence(diagnosis),
        }
    )


def _sentence(diagnosis: Diagnosis) -> str:
    if diagnosis.cls == UNCLASSIFIED:
        return f"no known signature; the first error is: {diagnosis.line}" if diagnosis.line else "no known signature"
    return f"{diagnosis.cls} ({diagnosis.signature}): {diagnosis.line}"

"""A run as a result."""

from typing import Any

from vaws_mcp.runs.follow import last_event
from vaws_mcp.runs.models import RunView
from vaws_mcp.runs.records import RunDir, State

WAIT_HINT = "Call run_wait with run_id={run_id} (again and again until it has ended); run_cancel ends the work."
INTERRUPTED_HINT = (
    "The run's process is gone. What it finished is below {path}; task_finish stops what it left on the endpoint."
)


def view(run: RunDir, state: State, *, with_result: bool) -> RunView:
    """Describe a run. A run that is under way is a success so far; an interrupted one is a failure."""
    record = run.record()
    event = last_event(run)
    result = run.result() if state == "finished" else None
    answer = RunView(
        run_id=run.run_id,
        operation=record.operation,
        task_id=record.task_id,
        state=state,
        phase=event.phase if event else None,
        message=event.message if event else None,
        created_at=record.created_at,
        ended_at=record.ended_at,
        directory=str(run.path),
        result=result if with_result else None,
        refs=_refs(run, result),
    )
    return _concluded(answer, run, result)


def _refs(run: RunDir, result: dict[str, Any] | None) -> dict[str, str]:
    refs = {"run": str(run.path), "log": str(run.log), "events": str(run.events)}
    return {**refs, **(result or {}).get("refs", {})}


def _concluded(answer: RunView, run: RunDir, result: dict[str, Any] | None) -> RunView:
    """Set status, outcome, summary and hint by the state."""
    if answer.state == "interrupted":
        answer.status, answer.outcome = "interrupted", "failed"
        answer.summary = f"{answer.operation} was interrupted in phase {answer.phase or 'start'}: its process is gone"
        answer.hint = INTERRUPTED_HINT.format(path=run.path)
    elif result is None:
        answer.status = "running"
        answer.summary = f"{answer.operation} is running: {answer.message or answer.phase or 'starting'}"
        answer.hint = WAIT_HINT.format(run_id=run.run_id)
    else:
        answer.status, answer.outcome = result["status"], result["outcome"]
        answer.summary = str(result.get("summary", ""))
    return answer

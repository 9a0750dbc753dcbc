"""Requests and results of the run operations, and the mixin of every operation that is carried out as a run."""

from typing import Any, Literal

from pydantic import Field

from vaws_mcp.core.models import Request, Result


class RunRequest(Request):
    """Mixed into the request of every operation that can take long."""

    wait_s: float | None = Field(
        default=None,
        ge=0,
        description="Seconds to wait for the end before answering `running` (tool calls: 45; command line: no limit).",
    )
    on_cancel: Literal["leave", "stop"] = Field(
        default="leave", description="What a cancelled call does to the work: leave it running, or stop it."
    )


class RunIdRequest(Request):
    """Arguments of ``run_status`` and ``run_cancel``."""

    run_id: str = Field(description="Id of the run.")


class RunWaitRequest(RunIdRequest):
    """Arguments of ``run_wait``."""

    wait_s: float | None = Field(
        default=None, ge=0, description="Seconds to wait (tool calls: 45; command line: no limit)."
    )


class RunListRequest(Request):
    """Arguments of ``run_list``."""

    context_file: str | None = Field(default=None, description="List only the runs of this task.")
    limit: int = Field(default=50, ge=1, le=10000, description="List at most so many, newest first.")


class RunView(Result):
    """A run as seen from outside. ``status``, ``outcome`` and ``summary`` are the run's own when it has finished."""

    run_id: str = Field(description="Id of the run.")
    operation: str = Field(description="What the run carries out.")
    task_id: str = Field(description="Task that the run belongs to.")
    state: str = Field(description="starting, running, finished or interrupted.")
    phase: str | None = Field(default=None, description="Newest phase of its progress.")
    message: str | None = Field(default=None, description="Newest progress message.")
    created_at: str = Field(description="When the run was started.")
    ended_at: str | None = Field(default=None, description="When it ended.")
    directory: str = Field(description="Directory with its records.")
    verdict: str | None = Field(default=None, description="Verdict of a comparison that was judged by a policy.")
    result: dict[str, Any] | None = Field(default=None, description="The whole answer of the operation.")


class RunListResult(Result):
    """Runs, newest first."""

    runs: list[dict[str, Any]] = Field(description="run_id, operation, task_id, state, status, created_at, ended_at.")
    unreadable: list[str] = Field(default_factory=list[str], description="Run directories whose records are torn.")
    more: int = Field(default=0, description="How many older runs were left out.")

"""Requests and results of the coordinator's operations."""

from pydantic import Field

from vaws_mcp.taskstore.models import TaskRequest, TaskResult


class TaskFinishRequest(TaskRequest):
    """Arguments of ``task_finish``."""

    abandon: bool = Field(
        default=False, description="Close the task even if an endpoint is gone; what may be left there is named."
    )
    stop: bool = Field(default=False, description="Cancel runs that are still under way, instead of refusing.")


class TaskFinishResult(TaskResult):
    """A finished task."""

    stopped: list[str] = Field(default_factory=list[str], description="Executions that were stopped now.")
    cancelled_runs: list[str] = Field(default_factory=list[str], description="Runs that were cancelled.")

"""Requests and results of the task operations."""

from typing import Any

from pydantic import Field

from vaws_mcp.core.models import Request, Result
from vaws_mcp.taskstore.records import Sources


class TaskCreateRequest(Request):
    """Arguments of ``task_create``."""

    slug: str = Field(description="Short name of the work: lower-case letters, digits and dashes.")
    endpoint: str | None = Field(default=None, description="Default endpoint of the task.")
    vllm_ascend: str | None = Field(default=None, description="Local git tree of vllm-ascend to bind.")
    vllm: str | None = Field(default=None, description="Local git tree of vLLM to bind.")


class TaskRequest(Request):
    """Arguments of ``task_show``."""

    context_file: str | None = Field(
        default=None, description="Path of the task's context.json. Default: VAWS_CONTEXT_FILE."
    )


class TaskListRequest(Request):
    """Arguments of ``task_list``."""

    finished: bool = Field(default=False, description="List finished tasks too.")


class TaskResult(Result):
    """A task."""

    task_id: str = Field(description="Id of the task.")
    context_file: str = Field(description="Pass this as context_file to every call that works on the task.")
    directory: str = Field(description="Directory with all records of the task.")
    state: str = Field(description="open or finished.")
    created_at: str = Field(description="When the task was created.")
    finished_at: str | None = Field(default=None, description="When it was finished.")
    endpoint: str | None = Field(default=None, description="Default endpoint of the task.")
    sources: Sources = Field(default_factory=Sources, description="Bound local trees.")


class TaskListResult(Result):
    """All tasks of this state directory."""

    tasks: list[dict[str, Any]] = Field(description="task_id, state, created_at, endpoint, context_file; newest first.")
    unreadable: list[str] = Field(default_factory=list[str], description="Task directories whose records are torn.")

"""task_create, task_show, task_list (task_finish stands with the coordinator, since it stops executions)."""

from pathlib import Path
from typing import Any

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, NeedsInput, Refused
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.resolve import lookup
from vaws_mcp.store.records import load
from vaws_mcp.taskstore.models import (
    TaskCreateRequest,
    TaskListRequest,
    TaskListResult,
    TaskRequest,
    TaskResult,
)
from vaws_mcp.taskstore.records import ContextRecord, Sources
from vaws_mcp.taskstore.tasks import Task, create_task, find_task, read_task, tasks_dir


@operation("task_create", title="Create a task", effect="write", positionals=("slug",))
async def task_create(request: TaskCreateRequest, ctx: Context) -> TaskResult:
    """Create a task: a directory for one piece of work, with default endpoint and bound source trees.

    The answer's `context_file` identifies the task in every later call.
    """
    if request.endpoint:
        lookup(ctx.state_dir, request.endpoint)
    sources = Sources(
        vllm_ascend=_tree(request.vllm_ascend, "vllm_ascend"),
        vllm=_tree(request.vllm, "vllm"),
    )
    task = create_task(ctx.state_dir, request.slug, request.endpoint, sources)
    return describe(task, f"created task {task.task_id}")


def _tree(path: str | None, name: str) -> str | None:
    if path is None:
        return None
    folder = Path(path).expanduser().absolute()
    if not (folder / ".git").exists():
        raise Refused("source_not_git", f"{name}: {folder} is not a git tree", hint="Give the root of a checkout.")
    return str(folder)


@operation("task_show", title="Show a task", effect="read", idempotent=True)
async def task_show(request: TaskRequest, ctx: Context) -> TaskResult:  # noqa: ARG001 - the form of every operation
    """Show a task: its endpoint, bound source trees, state and directory."""
    task = find_task(request.context_file)
    if task is None:
        raise NeedsInput(
            "task_missing", "no context_file was given", hint="Pass context_file; task_list shows the tasks."
        )
    return describe(task, f"task {task.task_id}")


@operation("task_list", title="List tasks", effect="read", idempotent=True)
async def task_list(request: TaskListRequest, ctx: Context) -> TaskListResult:
    """List the tasks of this state directory, newest first. Torn records are named, never guessed at."""
    rows: list[dict[str, Any]] = []
    unreadable: list[str] = []
    folders = sorted(tasks_dir(ctx.state_dir).iterdir()) if tasks_dir(ctx.state_dir).is_dir() else []
    for folder in filter(Path.is_dir, folders):
        try:
            context, task = load(folder / "context.json", ContextRecord), read_task(folder)
        except (Failure, OSError) as error:
            unreadable.append(f"{folder}: {error}")
            continue
        if request.finished or task.state == "open":
            rows.append(
                {
                    "task_id": task.task_id,
                    "state": task.state,
                    "created_at": task.created_at,
                    "endpoint": context.endpoint,
                    "context_file": str(folder / "context.json"),
                }
            )
    rows.sort(key=lambda row: row["created_at"], reverse=True)
    return TaskListResult(tasks=rows, unreadable=unreadable, summary=f"{len(rows)} tasks")


def describe(task: Task, summary: str) -> TaskResult:
    """Return a task as a result."""
    record = read_task(task.directory)
    return TaskResult(
        summary=summary,
        task_id=task.task_id,
        context_file=str(task.context_file),
        directory=str(task.directory),
        state=record.state,
        created_at=record.created_at,
        finished_at=record.finished_at,
        endpoint=task.context.endpoint,
        sources=task.context.sources,
    )

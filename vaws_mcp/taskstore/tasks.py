"""Finding and changing tasks."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, NeedsInput, Refused
from vaws_mcp.store.ids import SLUG, is_task_id, new_task_id
from vaws_mcp.store.records import load, save
from vaws_mcp.taskstore.records import ContextRecord, Sources, TaskRecord

CONTEXT_VARIABLE = "VAWS_CONTEXT_FILE"


@dataclass(frozen=True)
class Task:
    """An open task as a caller names it."""

    directory: Path
    context: ContextRecord

    @property
    def task_id(self) -> str:
        """The task's id, which is also the name of its directory."""
        return self.context.task_id

    @property
    def context_file(self) -> Path:
        """The file that identifies the task."""
        return self.directory / "context.json"


def timestamp() -> str:
    """Return the present time as ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def tasks_dir(state_dir: Path) -> Path:
    """Return the directory of all tasks."""
    return state_dir / "tasks"


def create_task(state_dir: Path, slug: str, endpoint: str | None, sources: Sources) -> Task:
    """Make a task with its directory and context file.

    Raises: Refused for a slug that is no lower-case word of letters, digits and dashes (at most 40 characters).
    """
    if not SLUG.fullmatch(slug):
        raise Refused(
            "slug_malformed",
            f"slug {slug!r} must be 1 to 40 lower-case letters, digits and inner dashes",
            hint="For example: dsv4-decode.",
        )
    task_id = new_task_id(slug)
    directory = tasks_dir(state_dir) / task_id
    directory.mkdir(parents=True)
    context = ContextRecord(task_id=task_id, endpoint=endpoint, sources=sources)
    save(directory / "task.json", TaskRecord(task_id=task_id, slug=slug, created_at=timestamp()))
    save(directory / "context.json", context)
    return Task(directory, context)


def find_task(context_file: str | None) -> Task | None:
    """Return the task a context file names (the argument, else ``VAWS_CONTEXT_FILE``), or None when neither is given.

    Raises: NeedsInput when the file is absent. Failure ``torn_record`` or ``context_foreign`` when it is not usable.
    """
    named = context_file or os.environ.get(CONTEXT_VARIABLE)
    if not named:
        return None
    path = _context_path(named)
    try:
        context = load(path, ContextRecord)
    except FileNotFoundError:
        raise NeedsInput(
            "context_missing",
            f"there is no context file {path}",
            hint="Create a task with task_create, or correct context_file.",
        ) from None
    except OSError as error:
        raise Failure("context_unreadable", f"cannot read {path}: {error.strerror}", layer="local") from None
    if not is_task_id(context.task_id) or path.parent.name != context.task_id:
        raise Failure(
            "context_foreign",
            f"{path} names task {context.task_id!r}, but it lies in {path.parent.name!r}",
            layer="local",
            hint="Use the context.json inside the task's own directory; copies are not accepted.",
        )
    return Task(path.parent, context)


def _context_path(named: str) -> Path:
    """Return the file that a caller names; only a regular file is ever read.

    Raises: Refused for what cannot be a path, or is something else than a file.
    """
    try:
        path = Path(named).expanduser().absolute()
        path = path / "context.json" if path.is_dir() else path
        special = path.exists() and not path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise Refused(
            "context_malformed", f"{named[:200]!r} is no usable path: {error}", hint="See task_list."
        ) from None
    if special:
        raise Refused("context_malformed", f"{path} is not a regular file", hint="See task_list.")
    return path


def require_task(ctx: Context, context_file: str | None, purpose: str) -> Task:
    """Return the open task of a request.

    Raises: NeedsInput without one, or when it is finished. Failure as ``find_task``.
    """
    task = find_task(context_file)
    if task is None:
        raise NeedsInput(
            "task_missing",
            f"{purpose} needs a task, and no context_file was given",
            hint="Call task_create and pass the context_file it answers (or set VAWS_CONTEXT_FILE).",
        )
    if task.directory.parent.parent != ctx.state_dir:
        ctx.warn(f"the task lies outside of {ctx.state_dir}")
    if read_task(task.directory).state == "finished":
        raise NeedsInput(
            "task_finished", f"task {task.task_id} is finished", hint="Create a new task with task_create."
        )
    return task


def read_task(directory: Path) -> TaskRecord:
    """Return ``task.json``.

    Raises: Failure ``torn_record``; also when it is absent although the context file is there.
    """
    try:
        return load(directory / "task.json", TaskRecord)
    except FileNotFoundError:
        raise Failure(
            "torn_record",
            f"{directory / 'task.json'} is missing",
            layer="local",
            hint="The task's directory was changed by hand; restore the file or start a new task.",
        ) from None

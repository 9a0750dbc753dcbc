"""Which open tasks use a machine, seen from their records alone."""

from pathlib import Path
from typing import NamedTuple

from vaws_mcp.core.failures import Failure
from vaws_mcp.store.records import load, read_json
from vaws_mcp.taskstore.records import ContextRecord
from vaws_mcp.taskstore.tasks import read_task, tasks_dir


class Usage(NamedTuple):
    """Open tasks by the name of the endpoint they use, and what could not be read."""

    by_endpoint: dict[str, list[str]]
    unreadable: list[str]


def usage(state_dir: Path) -> Usage:
    """Return who uses what: as default endpoint, or by an execution that is not known to have ended."""
    found = Usage({}, [])
    folders = sorted(tasks_dir(state_dir).iterdir()) if tasks_dir(state_dir).is_dir() else []
    for folder in filter(Path.is_dir, folders):
        try:
            context, task = load(folder / "context.json", ContextRecord), read_task(folder)
        except (Failure, OSError) as error:
            found.unreadable.append(f"{folder}: {error}")
            continue
        if task.state != "open":
            continue
        names = {context.endpoint} if context.endpoint else set[str]()
        for name in sorted(names | _executions(folder, found.unreadable)):
            found.by_endpoint.setdefault(name, []).append(task.task_id)
    return found


def _executions(folder: Path, unreadable: list[str]) -> set[str]:
    names: set[str] = set()
    for path in sorted((folder / "executions").glob("*/record.json")):
        try:
            record = read_json(path)
            if not record["ended"]:
                names.add(str(record["endpoint"]["name"]))
        except (Failure, OSError, KeyError, TypeError) as error:
            unreadable.append(f"{path}: {error}")
    return names

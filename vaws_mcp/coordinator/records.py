"""What a task keeps about its executions and services."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.store.ids import is_id
from vaws_mcp.store.records import Record, load, locked, save


class ExecutionRecord(Record):
    """``executions/<id>/record.json``: written before the execution is submitted.

    ``ended`` is set only when every process is gone and the resources are released.
    """

    schema_: Literal["vaws.execution.v1"] = Field(default="vaws.execution.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    execution_id: str
    task_id: str
    service: str | None = None
    endpoint: EndpointConfig
    command: list[str]
    created_at: str
    ended: bool = False
    status: dict[str, Any] = Field(default_factory=dict)


class ServicesRecord(Record):
    """``services.json``: service name to execution id."""

    schema_: Literal["vaws.services.v1"] = Field(default="vaws.services.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    services: dict[str, str] = Field(default_factory=dict)


def record_path(task_dir: Path, execution_id: str) -> Path:
    """Return where an execution's record lies."""
    return task_dir / "executions" / execution_id / "record.json"


def save_execution(task_dir: Path, record: ExecutionRecord) -> None:
    """Write an execution's record."""
    save(record_path(task_dir, record.execution_id), record)


def executions(task_dir: Path) -> Iterator[ExecutionRecord]:
    """Yield the records of a task's executions, oldest first.

    Raises: Failure ``torn_record``.
    """
    folder = task_dir / "executions"
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if is_id(entry.name) and record_path(task_dir, entry.name).exists():
            yield load(record_path(task_dir, entry.name), ExecutionRecord)


def services(task_dir: Path) -> dict[str, str]:
    """Return the task's services by name."""
    try:
        return load(task_dir / "services.json", ServicesRecord).services
    except FileNotFoundError:
        return {}


def name_service(task_dir: Path, name: str, execution_id: str | None) -> None:
    """Bind a service name to an execution, or free the name with None."""
    path = task_dir / "services.json"
    with locked(path):
        bound = services(task_dir)
        bound.pop(name, None)
        if execution_id is not None:
            bound[name] = execution_id
        save(path, ServicesRecord(services=bound))

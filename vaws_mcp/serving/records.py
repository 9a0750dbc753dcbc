"""What is kept about a service beside its execution."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from vaws_mcp.coordinator.records import ExecutionRecord, executions, find_execution, services
from vaws_mcp.store.records import Record, load, save
from vaws_mcp.taskstore.tasks import Task


class ServiceRecord(Record):
    """``executions/<id>/service.json``: written when the first token was there. Units: seconds from the launch."""

    schema_: Literal["vaws.service.v1"] = Field(default="vaws.service.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    ready_at: str
    phases: dict[str, float] = Field(default_factory=dict)
    took: dict[str, float] = Field(default_factory=dict)


def _path(task: Task, execution_id: str) -> Path:
    return task.directory / "executions" / execution_id / "service.json"


def ready_record(task: Task, execution_id: str) -> ServiceRecord | None:
    """Return when and how a service became ready, or None when nobody has seen that.

    Raises: Failure ``torn_record``.
    """
    try:
        return load(_path(task, execution_id), ServiceRecord)
    except FileNotFoundError:
        return None


def save_ready(task: Task, execution_id: str, record: ServiceRecord) -> None:
    """Keep how a service became ready; the first account stays."""
    if ready_record(task, execution_id) is None:
        save(_path(task, execution_id), record)


def service_record(task: Task, name: str) -> ExecutionRecord | None:
    """Return the execution of a service: the one its name is bound to, else the newest that had the name.

    Raises: Failure ``torn_record``.
    """
    bound = services(task.directory).get(name)
    if bound is not None and (record := find_execution(task.directory, bound)) is not None:
        return record
    named = [record for record in executions(task.directory) if record.service == name and record.kind == "serve"]
    return named[-1] if named else None

"""What a task keeps about its executions and services."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr

from vaws_mcp.core.redact import redact
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.store.ids import is_id
from vaws_mcp.store.records import Record, load, locked, save

VOLATILE = ("family", "logs", "reached")


class ExecutionRecord(Record):
    """``executions/<id>/record.json``: written before the execution is submitted.

    ``ended`` is set only when every process is gone and the resources are released. ``spec_parts`` are digests of what
    was asked for, by name, so that a second request for the same service can be compared with the first.
    """

    schema_: Literal["vaws.execution.v1"] = Field(default="vaws.execution.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    execution_id: str
    task_id: str
    kind: Literal["run", "serve", "hold", "reservation"] = "run"
    service: str | None = None
    endpoint: EndpointConfig
    command: list[str]
    labels: dict[str, str] = Field(default_factory=dict)
    ports: list[int] = Field(default_factory=list)
    receipt: dict[str, Any] = Field(default_factory=dict)
    spec_parts: dict[str, str] = Field(default_factory=dict)
    spec_digest: str | None = None
    created_at: str
    ended: bool = False
    status: dict[str, Any] = Field(default_factory=dict)

    _written_state: str | None = PrivateAttr(default=None)

    def model_post_init(self, _context: Any) -> None:
        """Remember the state as it is in the file that this was read from."""
        self._written_state = self.status.get("state")

    @property
    def written_state(self) -> str | None:
        """The state that was last read from or written to the file."""
        return self._written_state

    def note_written(self) -> None:
        """Remember that the file has the present state."""
        self._written_state = self.status.get("state")

    @property
    def name(self) -> str:
        """How to name the execution to a person: by its service, else by its id."""
        return self.service or self.execution_id


class ServicesRecord(Record):
    """``services.json``: service name to execution id."""

    schema_: Literal["vaws.services.v1"] = Field(default="vaws.services.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    services: dict[str, str] = Field(default_factory=dict)


def record_path(task_dir: Path, execution_id: str) -> Path:
    """Return where an execution's record lies."""
    return task_dir / "executions" / execution_id / "record.json"


def save_execution(task_dir: Path, record: ExecutionRecord) -> None:
    """Write an execution's record. Command lines of its processes, which may hold secrets, are left out or masked."""
    kept = {name: value for name, value in record.status.items() if name not in VOLATILE}
    if kept.get("survivors"):
        kept["survivors"] = redact(kept["survivors"])
    save(record_path(task_dir, record.execution_id), record.model_copy(update={"status": kept}))
    record.note_written()


def executions(task_dir: Path) -> Iterator[ExecutionRecord]:
    """Yield the records of a task's executions, oldest first.

    Raises: Failure ``torn_record``.
    """
    folder = task_dir / "executions"
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        if is_id(entry.name) and record_path(task_dir, entry.name).exists():
            yield load(record_path(task_dir, entry.name), ExecutionRecord)


def find_execution(task_dir: Path, execution_id: str) -> ExecutionRecord | None:
    """Return the record of one execution of a task, or None when there is none.

    Raises: Failure ``torn_record``.
    """
    if not is_id(execution_id):
        return None
    try:
        return load(record_path(task_dir, execution_id), ExecutionRecord)
    except FileNotFoundError:
        return None


def services(task_dir: Path) -> dict[str, str]:
    """Return the task's services by name."""
    try:
        return load(task_dir / "services.json", ServicesRecord).services
    except FileNotFoundError:
        return {}


def claim_service(task_dir: Path, name: str, execution_id: str, seen: str | None) -> bool:
    """Bind a service name to an execution if it is still bound as it was ``seen``; tell whether it was."""
    path = task_dir / "services.json"
    with locked(path):
        bound = services(task_dir)
        if bound.get(name) not in (seen, None):
            return False
        save(path, ServicesRecord(services={**bound, name: execution_id}))
        return True


def free_service(task_dir: Path, name: str, execution_id: str) -> None:
    """Free a service name, unless it has been bound to another execution."""
    path = task_dir / "services.json"
    with locked(path):
        bound = services(task_dir)
        if bound.get(name) == execution_id:
            del bound[name]
            save(path, ServicesRecord(services=bound))


def name_service(task_dir: Path, name: str, execution_id: str | None) -> None:
    """Bind a service name to an execution, or free the name with None."""
    path = task_dir / "services.json"
    with locked(path):
        bound = services(task_dir)
        bound.pop(name, None)
        if execution_id is not None:
            bound[name] = execution_id
        save(path, ServicesRecord(services=bound))

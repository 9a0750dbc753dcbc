"""A service as the fields of a result."""

from typing import Any

from vaws_mcp.coordinator.records import ExecutionRecord, record_path
from vaws_mcp.serving.records import ready_record
from vaws_mcp.taskstore.tasks import Task

COPIED = ("devices", "queue", "blocked")


def service_fields(task: Task, record: ExecutionRecord, status: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a ``ServiceResult`` for an execution and its status."""
    labels = record.labels
    ready = ready_record(task, record.execution_id)
    return {
        "service": record.name,
        "execution_id": record.execution_id,
        "state": status.get("state", "unknown"),
        "model": labels.get("model"),
        "served_model_name": labels.get("served_model_name"),
        "host": labels.get("host"),
        "port": int(labels["port"]) if labels.get("port", "").isdecimal() else None,
        "phases": ready.phases if ready else {},
        "took": ready.took if ready else {},
        "refs": {"record": str(record_path(task.directory, record.execution_id))},
        **{name: status.get(name) for name in COPIED},
    }

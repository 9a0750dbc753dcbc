"""One of many processes that write into the same state directory. Every finished write is acknowledged on stdout."""

import sys
from pathlib import Path

from vaws_mcp.coordinator.records import name_service
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint
from vaws_mcp.store.audit import audit
from vaws_mcp.store.events import append_event
from vaws_mcp.store.ids import new_id
from vaws_mcp.taskstore.records import Sources
from vaws_mcp.taskstore.tasks import create_task


def write_round(state_dir: Path, shared: Path, name: str) -> None:
    """Write one of everything and acknowledge each."""
    say("task", create_task(state_dir, f"writer-{name}", "local", Sources()).task_id)
    execution_id = new_id("execution")
    name_service(shared, f"service-{name}", execution_id)
    say("service", f"service-{name}={execution_id}")
    save_endpoint(state_dir, EndpointConfig(name=f"host-{name}", host="192.0.2.1", port=2222))
    say("endpoint", f"host-{name}")
    append_event(shared / "events.jsonl", {"writer": name, "padding": name * 100})
    say("event", name)
    audit(state_dir, "write_round", {"writer": name, "text": "x" * 400}, {"status": "ok", "outcome": "success"})
    say("audit", name)


def say(kind: str, what: str) -> None:
    """Acknowledge a write that is finished."""
    print(kind, what, flush=True)


def main(state_dir: Path, shared: Path, number: str, rounds: int) -> None:
    """Write until the rounds are over; 0 rounds mean until killed."""
    done = 0
    while done < rounds or not rounds:
        write_round(state_dir, shared, f"{number}-{done}")
        done += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))

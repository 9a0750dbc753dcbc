"""A run on disk: ``run.json``, ``events.jsonl``, ``result.json``, ``run.lock`` and ``process.log`` in its directory."""

import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vaws_mcp.core.failures import NeedsInput, Refused
from vaws_mcp.store.ids import is_id, is_task_id
from vaws_mcp.store.records import Record, load, read_json, save

LOCK_WAIT_S = 1.0
KINDS = ("benchmark/runs", "accuracy/runs", "verification", "reproduction", "preparation")
State = Literal["starting", "running", "finished", "interrupted"]


class RunRecord(Record):
    """What is known about a run. ``state`` on disk never says interrupted: that follows from the lock."""

    schema_: Literal["vaws.run.v1"] = Field(default="vaws.run.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    run_id: str
    operation: str
    task_id: str
    request: dict[str, Any]
    state: Literal["starting", "running", "finished"] = "starting"
    pid: int | None = None
    created_at: str
    ended_at: str | None = None
    status: str | None = None
    outcome: str | None = None


@dataclass(frozen=True)
class RunDir:
    """The directory of one run."""

    path: Path

    @property
    def run_id(self) -> str:
        """The run's id, which is the name of its directory."""
        return self.path.name

    @property
    def task_dir(self) -> Path:
        """The directory of the task that the run belongs to."""
        return next(parent for parent in self.path.parents if is_task_id(parent.name))

    @property
    def events(self) -> Path:
        """Progress, one JSON object a line."""
        return self.path / "events.jsonl"

    @property
    def log(self) -> Path:
        """Whatever the run's process wrote to its standard streams."""
        return self.path / "process.log"

    def record(self) -> RunRecord:
        """Return ``run.json``."""
        return load(self.path / "run.json", RunRecord)

    def save(self, record: RunRecord) -> None:
        """Write ``run.json``. Only the run's process does so after the start."""
        save(self.path / "run.json", record)

    def result(self) -> dict[str, Any] | None:
        """Return the answer of a finished run, or None."""
        try:
            return dict(read_json(self.path / "result.json"))
        except FileNotFoundError:
            return None

    def hold_lock(self) -> int:
        """Take the run's lock and return the handle; the lock lasts as long as any process has the handle open.

        Raises: BlockingIOError when another process keeps it (one that only looks has it for an instant).
        """
        handle = os.open(self.path / "run.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        end = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    os.close(handle)
                    raise
                time.sleep(0.005)
            else:
                return handle

    def is_alive(self) -> bool:
        """Tell whether the run's process lives: it holds the lock, and the kernel frees a lock with its holder."""
        try:
            handle = os.open(self.path / "run.lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def state(self) -> State:
        """Return the true state: a run that is not finished and whose process is gone was interrupted."""
        alive = self.is_alive()  # asked first: a run that ends in between has written its record by then
        written = self.record().state
        return written if alive or written == "finished" else "interrupted"


def all_runs(task_dir: Path) -> Iterator[RunDir]:
    """Yield the runs of a task. A directory without ``run.json`` is none: a start cut short, or a record set aside."""
    for kind in KINDS:
        folder = task_dir / kind
        if folder.is_dir():
            yield from (
                RunDir(entry) for entry in folder.iterdir() if is_id(entry.name) and (entry / "run.json").exists()
            )


def find_run(state_dir: Path, run_id: str) -> RunDir:
    """Return the directory of a run of any task.

    Raises: Refused for a malformed id. NeedsInput when there is no such run.
    """
    if not is_id(run_id) or not run_id.startswith("run-"):
        raise Refused("run_id_malformed", f"{run_id!r} is not a run id", hint="run_list shows the ids.")
    for kind in KINDS:
        for path in state_dir.glob(f"tasks/*/{kind}/{run_id}/run.json"):
            return RunDir(path.parent)
    raise NeedsInput(
        "run_unknown",
        f"there is no run {run_id} below {state_dir}",
        hint="run_list shows the runs; is VAWS_STATE_DIR the one the run was started with?",
    )

"""What a comparison works with: what is fixed, what is done, and what was seen during one launch."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaws_mcp.bench.measure import Place
from vaws_mcp.bench.service import Seat
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.comparison.cases import Case
from vaws_mcp.comparison.models import LaunchesRequest
from vaws_mcp.comparison.neighbours import foreign_processes
from vaws_mcp.comparison.records import LaunchRecord, PinnedState
from vaws_mcp.comparison.states import state_result
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.stop import Service
from vaws_mcp.source.patching import Patch
from vaws_mcp.taskstore.tasks import Task, timestamp


@dataclass(frozen=True)
class Work:
    """Everything that is fixed before the first launch. ``devices`` are those of the reservation."""

    task: Task
    endpoint: Endpoint
    place: Place
    run_dir: Path
    repo: str
    states: dict[str, PinnedState]
    request: LaunchesRequest
    settings: BenchSettings
    cases: Sequence[Case]
    seat: Seat
    devices: Sequence[dict[str, Any]]
    patch: Patch | None = None


@dataclass
class Progress:
    """The launches that have ended so far, in order, also those of the run that this one resumes."""

    launches: list[LaunchRecord] = field(default_factory=list[LaunchRecord])
    paths: list[str] = field(default_factory=list[str])

    @property
    def usable(self) -> list[LaunchRecord]:
        """The launches that count."""
        return [record for record in self.launches if record.counted and record.status in ("ok", "cleanup_failed")]

    def states(self) -> list[dict[str, Any]]:
        """Return a result for each state that has been launched."""
        labels = dict.fromkeys(record.label for record in self.launches)
        return [state_result([record for record in self.launches if record.label == label]) for label in labels]

    def fields(self) -> dict[str, Any]:
        """Return what a failure carries."""
        return {"partial_states": self.states(), "result_paths": self.paths}


@dataclass
class Seen:
    """What was seen beside the metrics of one launch."""

    started_at: str = field(default_factory=timestamp)
    foreign: list[str] | None = field(default_factory=list[str])
    native: dict[str, Any] | None = None
    probe: dict[str, Any] | None = None
    caches: dict[str, Any] = field(default_factory=dict[str, Any])
    patch_sha256: str | None = None

    async def neighbours(self, work: Work, service: Service | None) -> None:
        """Look who else uses the devices, before a launch or beside its service.

        One look that fails leaves it unknown, unless somebody was seen.
        """
        own = service.record.execution_id if service else None
        found = await foreign_processes(work.endpoint, work.devices, own)
        if found is None:
            self.foreign = self.foreign or None
        elif found:
            self.foreign = list(dict.fromkeys([*(self.foreign or []), *found]))

    def facts(self) -> dict[str, Any]:
        """Return what the launch's record says."""
        return {
            "started_at": self.started_at,
            "ended_at": timestamp(),
            "contaminated": None if self.foreign is None else bool(self.foreign),
            "contamination": self.foreign or [],
            "native": self.native,
            "accuracy_probe": self.probe,
            "caches": self.caches or None,
            "patch_sha256": self.patch_sha256,
        }

"""What a comparison keeps on disk: its plan, and one file for each launch and case."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from vaws_mcp.comparison.schedule import Order
from vaws_mcp.source.refs import Commit
from vaws_mcp.store.records import Record, load, save

PLAN_FILE = "comparison.json"
LAUNCHES = "launches"


class PinnedState(BaseModel):
    """A state and the commit that its ref was when the comparison began."""

    label: str
    ref: str
    sha: str
    subject: str
    remote: str | None = None
    base_of: str | None = None
    merge_base: str | None = None
    fetched_by: str | None = None

    @classmethod
    def of(cls, label: str, ref: str, commit: Commit) -> "PinnedState":
        """Return a state at the commit that its ref was resolved to."""
        found = {name: getattr(commit, name) for name in ("remote", "base_of", "merge_base", "fetched_by")}
        return cls(label=label, ref=ref, sha=commit.sha, subject=commit.subject, **found)

    def facts(self) -> dict[str, Any]:
        """Return what results say about the commit; what does not apply is left out."""
        return self.model_dump(mode="json", exclude={"label"}, exclude_none=True)


class ComparisonRecord(Record):
    """``comparison.json``: what was fixed before the first launch. ``devices`` are logic ids; empty means none."""

    schema_: Literal["vaws.comparison.v1"] = Field(default="vaws.comparison.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    run_id: str
    model: str
    endpoint: str
    states: list[PinnedState]
    cases: list[str]
    order: Order
    rounds: int
    devices: list[str] = Field(default_factory=list)
    vllm: PinnedState | None = None
    patch_sha256: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    receipt: dict[str, Any] = Field(default_factory=dict)
    resumed_from: str | None = None


class LaunchRecord(Record):
    """``launches/<n>-<label>-<case>.json``: one launch of a service, measured under one case.

    ``contaminated`` is null when nobody could look. ``status`` is ``ok`` only for a launch that counts.
    """

    schema_: Literal["vaws.launch.v1"] = Field(default="vaws.launch.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    run_id: str
    number: int
    round: int
    state: PinnedState
    case: str
    status: str
    error: str | None = None
    started_at: str
    ended_at: str
    launch: dict[str, Any] = Field(default_factory=dict)
    per_run: list[dict[str, Any]] = Field(default_factory=list)
    aggregated: dict[str, Any] = Field(default_factory=dict)
    result_paths: list[str] = Field(default_factory=list)
    contaminated: bool | None = None
    contamination: list[str] = Field(default_factory=list)
    accuracy_probe: dict[str, Any] | None = None
    native: dict[str, Any] | None = None
    caches: dict[str, Any] | None = None
    patch_sha256: str | None = None

    @property
    def label(self) -> str:
        """The label of the state."""
        return self.state.label

    @property
    def counted(self) -> list[dict[str, float | None]]:
        """Metrics of the iterations that are no warmups."""
        return [run["metrics"] for run in self.per_run if not run["warmup"]]


def launch_stem(number: int, label: str, case: str) -> str:
    """Return the name that all files of a launch and case begin with."""
    return f"{number:03d}-{label}-{case}"


def save_launch_record(run_dir: Path, record: LaunchRecord) -> Path:
    """Write a launch that has ended, before the next one begins, and return its path."""
    path = run_dir / LAUNCHES / f"{launch_stem(record.number, record.label, record.case)}.json"
    save(path, record)
    return path


def load_launches(run_dir: Path) -> list[LaunchRecord]:
    """Return the launches of a run in order.

    Raises: Failure ``torn_record``.
    """
    found = [load(path, LaunchRecord) for path in sorted((run_dir / LAUNCHES).glob("*.json"))]
    return sorted(found, key=lambda record: record.number)

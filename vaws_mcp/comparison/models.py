"""Request and result of a comparison."""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from vaws_mcp.bench.models import BenchRequest
from vaws_mcp.core.models import Names, Result

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class State(BaseModel):
    """One labelled state of the code."""

    model_config = ConfigDict(frozen=True)

    label: str
    ref: str


class BenchCompareRequest(BenchRequest):
    """Arguments of ``bench_compare``."""

    state: Names = Field(
        description="States to compare, the first is the reference: LABEL=REF. REF: sha, branch, pr:N, #N, base-of:REF."
    )
    runs: int = Field(default=3, ge=1, le=1000, description="Iterations of the client per launch, with warmups.")
    warmup_runs: int = Field(default=1, ge=0, description="How many of the first iterations are not counted.")

    @field_validator("state")
    @classmethod
    def _well_formed(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        labels: set[str] = set()
        for item in value:
            label, separator, ref = item.partition("=")
            if not separator or not ref or not _LABEL.fullmatch(label):
                raise ValueError(f"expected LABEL=REF with a label of letters, digits, dots and dashes, got {item!r}")
            if label.lower() in labels:
                raise ValueError(f"label {label!r} is given twice")
            labels.add(label.lower())
        return value

    def states(self) -> list[State]:
        """Return the states in the order given."""
        return [State(label=label, ref=ref) for label, _, ref in (item.partition("=") for item in self.state)]


class ComparisonRow(BaseModel):
    """One state and case against the first state. Units: ms, tok/s, percent; null when not measured."""

    state: str
    case: str
    mean_tpot_ms: float | None
    output_throughput: float | None
    spec_decode_acceptance_rate: float | None
    delta_tpot_ms_vs_first: float | None
    delta_tpot_pct_vs_first: float | None
    delta_output_throughput_pct_vs_first: float | None


class BenchCompareResult(Result):
    """A comparison. The first state is the reference of every delta."""

    task_id: str = Field(description="Task that the run belongs to.")
    model: str = Field(description="Model that was served.")
    comparison: list[ComparisonRow] = Field(description="One row per state and case.")
    state_results: list[dict[str, Any]] = Field(description="label, ref, sha, launch, per_run, aggregated.")
    config: dict[str, Any] = Field(description="The settings that all states shared.")
    preset: str | None = Field(default=None, description="Preset the settings came from.")
    fixed_dataset: dict[str, Any] | None = Field(default=None, description="Fixed request data set, when one was used.")
    report_paths: dict[str, str] = Field(default_factory=dict, description="markdown and html.")
    result_paths: list[str] = Field(default_factory=list[str], description="Files with the raw results.")

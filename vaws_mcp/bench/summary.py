"""The few figures of a run that a history shows, in one small file: a history of thousands of runs reads only these."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from vaws_mcp.store.records import Record, save

FILE = "summary.json"
METRICS = (
    *("mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms", "mean_ttft_ms", "p99_ttft_ms", "mean_itl_ms"),
    *("output_throughput", "total_token_throughput", "request_throughput", "spec_decode_acceptance_rate"),
)


class MeasuredState(BaseModel):
    """A state of the code under one case, with the means of its metrics. ``sha`` None is not known."""

    label: str
    case: str
    sha: str | None = None
    subject: str | None = None
    launches: int = 1
    metrics: dict[str, float | None] = Field(default_factory=dict)


class RunSummary(Record):
    """``summary.json`` of a finished run."""

    schema_: Literal["vaws.bench_summary.v1"] = Field(default="vaws.bench_summary.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    model: str
    ended_at: str
    verdict: str | None = None
    simulated: bool = False
    states: list[MeasuredState] = Field(default_factory=list[MeasuredState])


def kept_metrics(means: dict[str, float | None]) -> dict[str, float | None]:
    """Return the metrics that a history can show."""
    return {name: means[name] for name in METRICS if name in means}


def save_summary(
    run_dir: Path,
    model: str,
    states: Sequence[MeasuredState],
    *,
    ended_at: str,
    verdict: str | None = None,
    simulated: bool = False,
) -> None:
    """Write the summary of a run that has measured everything."""
    summary = RunSummary(model=model, ended_at=ended_at, verdict=verdict, simulated=simulated, states=list(states))
    save(run_dir / FILE, summary)

"""Request and result of ``bench_history``."""

from pydantic import BaseModel, Field

from vaws_mcp.core.models import Request, Result


class BenchHistoryRequest(Request):
    """Arguments of ``bench_history``."""

    context_file: str | None = Field(default=None, description="Task whose benchmarks are listed.")
    metric: str = Field(
        default="mean_tpot_ms", pattern=r"^[a-z][a-z0-9_]*$", description="Metric to show and to plot over commits."
    )
    model: str | None = Field(default=None, description="Only runs of this model.")
    case: str | None = Field(default=None, description="Only this case, such as default or requests_1.")
    limit: int = Field(default=200, ge=1, le=10_000, description="Look at so many runs, newest first.")
    plot: bool = Field(default=True, description="Write a page with the metric over commits.")


class HistoryRow(BaseModel):
    """A state that was measured, or a run that has measured nothing."""

    run_id: str
    at: str = Field(description="When the run ended, or began if it has measured nothing.")
    status: str
    operation: str | None = None
    model: str | None = None
    verdict: str | None = None
    state: str | None = None
    case: str | None = None
    sha: str | None = None
    subject: str | None = None
    launches: int | None = None
    simulated: bool = Field(default=False, description="The value is of the simulated container.")
    value: float | None = Field(default=None, description="Mean of the metric; null when not measured.")


class BenchHistoryResult(Result):
    """Benchmarks of a task, newest first."""

    task_id: str = Field(description="The task.")
    metric: str = Field(description="The metric in `value`.")
    history: list[HistoryRow] = Field(description="One row for each state and case of each run.")
    more: int = Field(default=0, description="How many older runs were not looked at.")
    report_paths: dict[str, str] = Field(default_factory=dict, description="markdown, html and csv of the history.")

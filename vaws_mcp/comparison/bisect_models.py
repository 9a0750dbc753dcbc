"""Request and result of ``bench_bisect``."""

from typing import Any

from pydantic import BaseModel, Field

from vaws_mcp.comparison.models import LaunchesRequest
from vaws_mcp.core.models import Result


class BenchBisectRequest(LaunchesRequest):
    """Arguments of ``bench_bisect``. Only with ``resume`` are model, good and bad left out."""

    good: str = Field(default="", pattern=r"^[^-]", description="Commit without the regression; an ancestor of bad.")
    bad: str = Field(default="", pattern=r"^[^-]", description="Commit with the regression.")
    metric: str = Field(
        default="mean_tpot_ms", pattern=r"^[a-z][a-z0-9_]*$", description="Metric that has become worse."
    )
    threshold: float = Field(
        default=5.0,
        gt=0,
        le=1000,
        description="Percent that bad must be worse than good by, or there is nothing to find.",
    )
    rounds: int = Field(default=2, ge=1, le=100, description="Launches of each commit that is measured.")

    def missing(self) -> list[str]:
        """Return the names of the arguments that are left out and needed."""
        return [*super().missing(), *(name for name in ("good", "bad") if not getattr(self, name))]


class BisectStep(BaseModel):
    """A commit that was looked at."""

    sha: str
    subject: str
    said: str = Field(description="good, bad or skipped.")
    value: float | None = Field(default=None, description="Mean of the metric; null when it was skipped.")
    regression_pct: float | None = Field(default=None, description="Change for the worse against good.")
    why: str | None = Field(default=None, description="Why it was skipped.")


class BenchBisectResult(Result):
    """Where a regression came in."""

    task_id: str = Field(description="Task that the run belongs to.")
    model: str = Field(description="Model that was served.")
    metric: str = Field(description="The metric.")
    regression_pct: float | None = Field(description="Change for the worse from good to bad.")
    first_bad: dict[str, Any] | None = Field(
        default=None,
        description="sha, subject and regression_pct against the commit before it; null when it is not one commit.",
    )
    suspects: list[str] = Field(
        default_factory=list[str], description="Commits one of which is the first bad one; one when it was found."
    )
    steps: list[BisectStep] = Field(description="The commits that were looked at, in order.")
    commits: int = Field(description="Commits from good (without) to bad (with).")
    config: dict[str, Any] = Field(description="The settings that all launches shared.")
    resumed_from: str | None = Field(default=None, description="Run whose finished launches are among these.")
    result_paths: list[str] = Field(default_factory=list[str], description="Files with the raw results.")

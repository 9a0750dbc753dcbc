"""Request and result of a comparison."""

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from vaws_mcp.bench.models import NIGHTLY, ORIGIN, BenchRequest, CasesRequest
from vaws_mcp.comparison.schedule import Order
from vaws_mcp.comparison.verdict import Judgement, Verdict
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.models import Names, Result
from vaws_mcp.numeric.effect import Effect

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


class State(BaseModel):
    """One labelled state of the code."""

    model_config = ConfigDict(frozen=True)

    label: str
    ref: str


class LaunchesRequest(BenchRequest, CasesRequest):
    """What every operation takes that measures states of the code by several launches. ``resume`` replaces all else."""

    model: str = Field(
        default="", pattern=r"^[^-]", description="Model path on the endpoint, or a name that vLLM can find there."
    )
    runs: int = Field(default=3, ge=1, le=1000, description="Iterations of the client per launch, with warmups.")
    warmup_runs: int = Field(default=1, ge=0, description="How many of the first iterations are not counted.")
    rounds: int = Field(default=1, ge=1, le=1000, description="Launches of each state.")
    resume: str | None = Field(
        default=None, pattern=r"^run-", description="Id of an interrupted run to go on with at its first open launch."
    )
    execution_id: str | None = Field(
        default=None, description="Take endpoint, environment and devices from this execution, which must have ended."
    )
    stash: bool = Field(
        default=False, description="Put uncommitted work of the endpoint's tree aside, and back at the end."
    )
    remote_patch_file: str | None = Field(
        default=None, min_length=1, description="Local patch that is applied on top of every state and taken out again."
    )
    stale_cleanup: bool = Field(
        default=False, description="End stale vLLM processes before and after each launch (stale_cleanup)."
    )
    allow_stale_native: bool = Field(
        default=False, description="Measure also states whose native inputs differ or cannot be verified; it is warned."
    )
    accuracy_probe: bool = Field(
        default=False, description="Ask every launch for one completion at temperature 0 and compare the texts."
    )
    accuracy_prompt: str | None = Field(default=None, min_length=1, description="Prompt of the probe.")
    accuracy_max_tokens: int = Field(default=64, ge=1, le=100_000, description="Length of the probe's answer.")

    def missing(self) -> list[str]:
        """Return the names of the arguments that are left out and needed, unless a run is resumed."""
        return [] if self.model else ["model"]

    def require_whole(self, operation: str) -> None:
        """Refuse a request that lacks something.

        Raises: Refused.
        """
        if missing := self.missing():
            raise Refused(
                "argument_invalid",
                f"{operation}: {'; '.join(f'{name} is missing' for name in missing)}",
                hint="Correct the arguments.",
            )


class BenchCompareRequest(LaunchesRequest):
    """Arguments of ``bench_compare``. Only with ``resume`` are model and states left out."""

    state: Names = Field(
        default=(),
        description="States to compare, the first is the reference: LABEL=REF. REF: sha, branch, pr:N, #N, "
        "base-of:REF.",
    )
    order: Order = Field(
        default="sequential",
        description="sequential: all launches of a state, then the next. interleaved: states forward, then backward.",
    )
    policy: str | None = Field(
        default=None, min_length=1, description="Declared policy for a verdict: a name or a JSON file (bench_verdict)."
    )
    plan: bool = Field(default=False, description="Only say what would be launched, on which devices and for how long.")

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

    def missing(self) -> list[str]:
        """Return the names of the arguments that are left out and needed."""
        return [*super().missing(), *([] if self.state else ["state"])]


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


class EffectRow(BaseModel):
    """How one state differs from the first in one metric of one case, and how sure that is."""

    state: str
    case: str
    metric: str
    effect: Effect


class JudgementRow(Judgement):
    """The verdict on one metric or gate of one state and case."""

    state: str
    case: str


class Judged(BaseModel):
    """A policy applied to a comparison."""

    policy: str = Field(description="Name of the policy.")
    verdict: Verdict = Field(description="passed, failed or inconclusive: any failed wins, then any inconclusive.")
    judgements: list[JudgementRow] = Field(description="One verdict for each state, case and metric or gate.")


class BenchCompareResult(Result):
    """A comparison. The first state is the reference of every delta."""

    task_id: str = Field(description="Task that the run belongs to.")
    model: str = Field(description="Model that was served.")
    verdict: Verdict | None = Field(default=None, description="By the declared policy; null without one.")
    policy: str | None = Field(default=None, description="Name of the policy.")
    judgements: list[JudgementRow] = Field(
        default_factory=list[JudgementRow], description="The verdict on each metric and gate."
    )
    comparison: list[ComparisonRow] = Field(description="One row per state and case.")
    effects: list[EffectRow] = Field(
        default_factory=list[EffectRow],
        description="Per state, case and metric: change in percent of the first state, its 95 % interval, drift over "
        "the run, outliers, smallest change that could be seen. Intervals need two launches of each state.",
    )
    state_results: list[dict[str, Any]] = Field(
        description="label, ref, sha, launch, per_run, aggregated, launches[], cases{}."
    )
    config: dict[str, Any] = Field(description="The settings that all states shared.")
    config_origin: dict[str, str] = Field(description=ORIGIN)
    plan: dict[str, Any] | None = Field(
        default=None, description="With plan: states, launches, devices, estimated_minutes with the basis."
    )
    devices: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="The devices that all launches used."
    )
    patch_sha256: str | None = Field(default=None, description="Identity of the patch on top of every state.")
    vllm: dict[str, Any] | None = Field(default=None, description="State of vLLM that all launches used, by vllm_ref.")
    receipt: dict[str, Any] = Field(
        default_factory=dict[str, Any], description="Local sources with their commits, and versions on the endpoint."
    )
    repeat: list[str] = Field(default_factory=list[str], description="The command that repeats this comparison.")
    resumed_from: str | None = Field(default=None, description="Run whose finished launches are among these.")
    preset: str | None = Field(default=None, description="Preset the settings came from.")
    nightly: dict[str, Any] | None = Field(default=None, description=NIGHTLY)
    fixed_dataset: dict[str, Any] | None = Field(default=None, description="Fixed request data set, when one was used.")
    report_paths: dict[str, str] = Field(default_factory=dict, description="markdown, html and csv.")
    result_paths: list[str] = Field(default_factory=list[str], description="Files with the raw results.")

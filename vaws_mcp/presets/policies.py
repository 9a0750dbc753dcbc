"""Policies: what counts as a regression, declared before the measurement, as ``presets/policies/<name>.json``."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.presets.loading import Preset, load_preset

KIND = "policies"
FEWEST_LAUNCHES = 4
"""Below this many launches a state no metric can fail: the interval is wider than any useful threshold."""

Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
MetricName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=80)]


class Part(BaseModel):
    """A part of a policy; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MetricRule(Part):
    """What is allowed to happen to one metric."""

    direction: Literal["lower", "higher"] = Field(description="Which way is better.")
    max_regression_pct: float = Field(gt=0, le=100, allow_inf_nan=False, description="Largest change for the worse.")
    min_launches: int | None = Field(
        default=None, ge=FEWEST_LAUNCHES, le=1000, description="Launches a state that `passed` needs."
    )
    max_cv: Share | None = Field(default=None, description="Largest spread between launches that `passed` allows.")

    @property
    def needed_launches(self) -> int:
        """How many launches a state ``passed`` needs: as declared, else 4 for 5 % and more, 8 below."""
        if self.min_launches is not None:
            return self.min_launches
        return FEWEST_LAUNCHES if self.max_regression_pct >= 5 else 8


class Gates(Part):
    """What must be true besides the metrics. A gate that is false or null is not asked."""

    failed_requests: Literal[0] | None = Field(default=0, description="Most failed requests in counted iterations.")
    accuracy_probe_unchanged: bool = Field(default=False, description="The probe's text is the same in all states.")
    max_acceptance_drop: Share | None = Field(
        default=None, description="Largest fall of the speculative acceptance rate, as a fraction of 1."
    )
    native_inputs_unchanged: bool = Field(default=True, description="All states have the same native inputs.")
    no_contaminated_launch: bool = Field(default=True, description="Nobody else used the devices during a launch.")


class Policy(Preset):
    """A declared policy."""

    schema_: Literal["vaws.policy.v1"] = Field(default="vaws.policy.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    description: str = Field(max_length=500)
    metrics: dict[MetricName, MetricRule] = Field(min_length=1)
    gates: Gates = Gates()
    power: float = Field(default=0.9, ge=0.5, le=0.99, description="Wanted probability to call twice the threshold.")


def load_policy(given: str) -> Policy:
    """Return a shipped policy by name, or the one in a file.

    Raises: as ``load_preset``.
    """
    return load_preset(KIND, given, Policy)

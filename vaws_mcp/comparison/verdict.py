"""From measured effects and a declared policy to ``passed``, ``failed`` or ``inconclusive``. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, Field

from vaws_mcp.numeric.effect import Effect, Point, state_effect
from vaws_mcp.presets.policies import FEWEST_LAUNCHES, Gates, MetricRule, Policy

Verdict = Literal["passed", "failed", "inconclusive"]
PROBE_HINT = "it was not measured: accuracy_probe asks every launch for it"


class MeasuredLaunch(NamedTuple):
    """One launch of one case. ``metrics`` has one value an iteration that counts, in order."""

    position: int
    round: int
    metrics: Mapping[str, Sequence[float | None]]


class Quality(NamedTuple):
    """What is known about one state besides its metrics; None is not known.

    ``acceptance_drop`` is the fall of the speculative acceptance rate against the first state, 0.0 when neither drafts.
    """

    failed_requests: int | None = None
    probe_changed: bool | None = None
    acceptance_drop: float | None = None
    native_inputs_changed: bool | None = None
    contaminated_launches: int | None = None


class Judgement(BaseModel):
    """The verdict on one metric or gate of one state and case."""

    name: str = Field(description="Metric or gate.")
    verdict: Verdict
    reason: str = Field(description="One sentence.")
    regression_pct: float | None = Field(default=None, description="Change for the worse; negative is better.")
    low_pct: float | None = Field(default=None, description="One-sided 95 % lower bound of the regression.")
    high_pct: float | None = Field(default=None, description="One-sided 95 % upper bound of the regression.")
    threshold_pct: float | None = None
    advised_rounds: int | None = Field(default=None, description="Rounds after which twice the threshold shows.")


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Return the verdict of all together: any failed wins, then any inconclusive. Nothing judged is inconclusive."""
    found = {judgement.verdict for judgement in judgements}
    if "failed" in found:
        return "failed"
    return "passed" if found == {"passed"} else "inconclusive"


def judge_metrics(
    policy: Policy, first: Sequence[MeasuredLaunch], other: Sequence[MeasuredLaunch]
) -> tuple[list[Judgement], dict[str, Effect]]:
    """Judge every metric of the policy for one state and case; also return the effects that decided."""
    effects = {
        name: state_effect(
            points(first, name), points(other, name), threshold_pct=rule.max_regression_pct, power=policy.power
        )
        for name, rule in policy.metrics.items()
    }
    return [judge_metric(name, policy.metrics[name], effect) for name, effect in effects.items()], effects


def cannot_pass(policy: Policy, rounds: int, *, probe: bool) -> list[str]:
    """Say, before anything is measured, why a run of so many rounds can only fail or be inconclusive by a policy."""
    found: list[str] = []
    needed = max(rule.needed_launches for rule in policy.metrics.values())
    if rounds < needed:
        found.append(
            f"policy {policy.name} needs {needed} launches a state to pass; this run has {rounds}: raise rounds"
        )
    if policy.gates.accuracy_probe_unchanged and not probe:
        found.append(f"policy {policy.name} asks for the accuracy probe, and accuracy_probe is not set: it cannot pass")
    return found


def points(launches: Sequence[MeasuredLaunch], metric: str) -> list[Point]:
    """Return one metric of launches as points."""
    return [Point(launch.position, launch.metrics.get(metric, ()), launch.round) for launch in launches]


def judge_metric(name: str, rule: MetricRule, effect: Effect) -> Judgement:
    """Judge one metric.

    Failed: the estimate is beyond the threshold and its one-sided 95 % lower bound above zero. Passed: the upper bound
    is below the threshold, with enough launches and little enough noise. A noisy metric can fail but never pass.
    """
    regression, low, high = _regression(rule, effect)
    threshold = rule.max_regression_pct

    def judged(verdict: Verdict, reason: str) -> Judgement:
        return Judgement(
            name=name,
            verdict=verdict,
            reason=reason,
            regression_pct=regression,
            low_pct=low,
            high_pct=high,
            threshold_pct=threshold,
            advised_rounds=effect.advised_rounds,
        )

    fewest = min(effect.launches)
    if regression is None:
        return judged("inconclusive", "the metric was not measured in both states")
    if low is None or high is None or fewest < FEWEST_LAUNCHES:
        return judged("inconclusive", f"{fewest} launches a state are too few; at least {FEWEST_LAUNCHES} are needed")
    if regression > threshold and low > 0:
        return judged("failed", f"{regression:.1f} % worse, beyond {threshold:g} %; at least {low:.1f} % worse (95 %)")
    if fewest < rule.needed_launches:
        return judged("inconclusive", f"{fewest} launches a state; {rule.needed_launches} are needed to pass")
    if _too_noisy(rule, effect):
        return judged("inconclusive", f"the launches spread by {effect.launch_cv_pct:.1f} %, more than max_cv allows")
    if high < threshold:
        return judged("passed", f"at most {high:.1f} % worse, within {threshold:g} %")
    advice = f"; {effect.advised_rounds} rounds are advised" if effect.advised_rounds else ""
    return judged("inconclusive", f"between {low:.1f} and {high:.1f} % worse: neither within nor beyond{advice}")


def _regression(rule: MetricRule, effect: Effect) -> tuple[float | None, float | None, float | None]:
    """Return estimate, lower and upper bound of the change for the worse."""
    if rule.direction == "lower":
        return effect.pct, effect.one_sided_low_pct, effect.one_sided_high_pct
    turned = [
        None if value is None else -value for value in (effect.pct, effect.one_sided_high_pct, effect.one_sided_low_pct)
    ]
    return turned[0], turned[1], turned[2]


def _too_noisy(rule: MetricRule, effect: Effect) -> bool:
    return rule.max_cv is not None and (effect.launch_cv_pct is None or effect.launch_cv_pct > rule.max_cv * 100)


def judge_gates(gates: Gates, quality: Quality) -> list[Judgement]:
    """Judge the gates that the policy asks for; what is not known is inconclusive, never passed."""
    found: list[Judgement] = []
    if gates.failed_requests is not None:
        known = quality.failed_requests
        found.append(_gate("failed_requests", None if known is None else known > 0, f"{known} requests failed"))
    if gates.accuracy_probe_unchanged:
        found.append(_gate("accuracy_probe_unchanged", quality.probe_changed, "the probe's answer changed", PROBE_HINT))
    if gates.max_acceptance_drop is not None:
        drop = quality.acceptance_drop
        worse = None if drop is None else not drop <= gates.max_acceptance_drop
        found.append(_gate("max_acceptance_drop", worse, f"the acceptance rate fell by {drop}"))
    if gates.native_inputs_unchanged:
        found.append(_gate("native_inputs_unchanged", quality.native_inputs_changed, "native inputs changed"))
    if gates.no_contaminated_launch:
        count = quality.contaminated_launches
        found.append(_gate("no_contaminated_launch", None if count is None else count > 0, f"{count} contaminated"))
    return found


def _gate(name: str, broken: bool | None, what: str, unknown: str = "it was not measured") -> Judgement:
    if broken is None:
        return Judgement(name=name, verdict="inconclusive", reason=unknown)
    return Judgement(name=name, verdict="failed" if broken else "passed", reason=what if broken else "holds")

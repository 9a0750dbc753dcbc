"""By how much one state of the code differs from another, and how sure that is.

The unit is the launch: iterations inside one launch share its luck (memory layout, compile order, neighbours), so more
of them never narrow an interval between states. The method is ordinary least squares of the launch means of the
logarithm on state and launch position; ``docs/statistics.md`` says why.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel, Field

from vaws_mcp.numeric.least_squares import Fit, fit
from vaws_mcp.numeric.power import advised_rounds, detectable_pct
from vaws_mcp.numeric.student import t_quantile, t_share_below
from vaws_mcp.numeric.summary import median

CONFIDENCE = 0.95
OUTLIER = 3.5
"""Source: the modified z-score of Iglewicz and Hoaglin (1993), which flags above 3.5."""
FEWEST_FOR_OUTLIERS = 5
_NORMAL_MAD = 0.6745  # a normal distribution's median absolute deviation in standard deviations


class Point(NamedTuple):
    """One launch. ``position`` counts all launches of the run in the order they happened; ``values`` are iterations.

    A value that is missing, not finite or not above zero has no logarithm and is left out.
    """

    position: int
    values: Sequence[float | None]
    round: int = 1


class Effect(BaseModel):
    """The difference of one metric between two states, in percent of the first. Unknown is null."""

    pct: float | None = Field(description="Estimated change; adjusted for drift when there are enough launches.")
    low_pct: float | None = Field(default=None, description="Lower end of the 95 % interval.")
    high_pct: float | None = Field(default=None, description="Upper end of the 95 % interval.")
    one_sided_low_pct: float | None = Field(default=None, description="One-sided 95 % lower bound.")
    one_sided_high_pct: float | None = Field(default=None, description="One-sided 95 % upper bound.")
    p_value: float | None = Field(default=None, description="Two-sided probability of such a change by chance.")
    df: int | None = Field(default=None, description="Degrees of freedom of the interval.")
    launches: tuple[int, int] = Field(description="Launches with this metric: of the first state, of the other.")
    launch_cv_pct: float | None = Field(default=None, description="Spread between launches, after state and drift.")
    iteration_spread_pct: float | None = Field(default=None, description="Spread inside launches; no interval.")
    drift_pct: float | None = Field(default=None, description="Change from the first to the last launch, by time.")
    drift_p_value: float | None = Field(default=None, description="Probability of such a drift by chance.")
    paired_pct: float | None = Field(default=None, description="Mean change over rounds, as a check.")
    paired_low_pct: float | None = Field(default=None, description="Lower end of its 95 % interval.")
    paired_high_pct: float | None = Field(default=None, description="Upper end of its 95 % interval.")
    detectable_pct: float | None = Field(
        default=None, description="Smallest change that this many launches show in 9 of 10 repetitions."
    )
    advised_rounds: int | None = Field(default=None, description="Smallest even number of rounds that would suffice.")
    outliers: list[int] = Field(default_factory=list[int], description="Positions that stand out; they are kept.")

    @property
    def known(self) -> bool:
        """Whether there is an interval between states."""
        return self.low_pct is not None


def percent(log_ratio: float) -> float:
    """Return the change in percent that a difference of logarithms is."""
    return math.expm1(min(log_ratio, 700.0)) * 100


def logarithms(point: Point) -> list[float]:
    """Return the logarithms of a launch's usable values."""
    return [math.log(value) for value in point.values if value is not None and math.isfinite(value) and value > 0]


def state_effect(
    first: Sequence[Point], other: Sequence[Point], *, threshold_pct: float | None = None, power: float = 0.9
) -> Effect:
    """Return how ``other`` differs from ``first`` in one metric.

    With ``threshold_pct`` the advised rounds are those after which a regression of twice the threshold is called so
    with probability ``power``. With fewer than four launches there is no residual, so only the spread of iterations
    is known: it says nothing about another launch.
    """
    kept = [[(point, logs) for point in points if (logs := logarithms(point))] for points in (first, other)]
    counts = (len(kept[0]), len(kept[1]))
    inside = _iteration_spread([logs for side in kept for _point, logs in side])
    if not all(counts):
        return Effect(pct=None, launches=counts, iteration_spread_pct=inside)
    means = [[(point, math.fsum(logs) / len(logs)) for point, logs in side] for side in kept]
    found = _fit(means)
    if found is None:
        raw = _mean(means[1]) - _mean(means[0])
        return Effect(pct=percent(raw), launches=counts, iteration_spread_pct=inside)
    return _described(means, counts, inside, found, threshold_pct, power)


Means = list[list[tuple[Point, float]]]


def _mean(side: list[tuple[Point, float]]) -> float:
    return math.fsum(value for _point, value in side) / len(side)


def _iteration_spread(launches: list[list[float]]) -> float | None:
    squares, df = 0.0, 0
    for logs in launches:
        centre = math.fsum(logs) / len(logs)
        squares += math.fsum((value - centre) ** 2 for value in logs)
        df += len(logs) - 1
    return percent(math.sqrt(squares / df)) if df else None


def _fit(means: Means) -> Fit | None:
    points = [(float(index), point.position, value) for index, side in enumerate(means) for point, value in side]
    centre = math.fsum(position for _state, position, _value in points) / len(points)
    return fit([[1.0, state, position - centre] for state, position, _ in points], [value for *_, value in points])


def _described(
    means: Means, counts: tuple[int, int], inside: float | None, found: Fit, threshold_pct: float | None, power: float
) -> Effect:
    step, error = found.coefficients[1], found.errors[1]
    two_sided, one_sided = t_quantile((1 + CONFIDENCE) / 2, found.df), t_quantile(CONFIDENCE, found.df)
    positions = [point.position for side in means for point, _value in side]
    paired = _paired(means)
    return Effect(
        pct=percent(step),
        low_pct=percent(step - two_sided * error),
        high_pct=percent(step + two_sided * error),
        one_sided_low_pct=percent(step - one_sided * error),
        one_sided_high_pct=percent(step + one_sided * error),
        p_value=_p_value(step, error, found.df),
        df=found.df,
        launches=counts,
        launch_cv_pct=percent(found.spread),
        iteration_spread_pct=inside,
        drift_pct=percent(found.coefficients[2] * (max(positions) - min(positions))),
        drift_p_value=_p_value(found.coefficients[2], found.errors[2], found.df),
        paired_pct=percent(paired[0]) if paired else None,
        paired_low_pct=percent(paired[0] - paired[1]) if paired else None,
        paired_high_pct=percent(paired[0] + paired[1]) if paired else None,
        detectable_pct=detectable_pct(error, found.df, power),
        advised_rounds=None if threshold_pct is None else advised_rounds(found.spread, threshold_pct, power),
        outliers=_outliers(means, found),
    )


def _p_value(coefficient: float, error: float, df: int) -> float:
    if error == 0:
        return 1.0 if coefficient == 0 else 0.0
    return 2 * t_share_below(-abs(coefficient / error), df)


def _paired(means: Means) -> tuple[float, float] | None:
    """Return the mean log ratio over rounds that have both states and half its 95 % interval; None below two rounds."""
    rounds: list[dict[int, list[float]]] = [{}, {}]
    for index, side in enumerate(means):
        for point, value in side:
            rounds[index].setdefault(point.round, []).append(value)
    shared = sorted(rounds[0].keys() & rounds[1].keys())
    ratios = [
        math.fsum(rounds[1][key]) / len(rounds[1][key]) - math.fsum(rounds[0][key]) / len(rounds[0][key])
        for key in shared
    ]
    if len(ratios) < 2:
        return None
    centre = math.fsum(ratios) / len(ratios)
    spread = math.sqrt(math.fsum((ratio - centre) ** 2 for ratio in ratios) / (len(ratios) - 1))
    return centre, t_quantile((1 + CONFIDENCE) / 2, len(ratios) - 1) * spread / math.sqrt(len(ratios))


def _outliers(means: Means, found: Fit) -> list[int]:
    positions = [point.position for side in means for point, _value in side]
    if len(positions) < FEWEST_FOR_OUTLIERS:
        return []
    centre = median(found.residuals) or 0.0
    distance = median(abs(residual - centre) for residual in found.residuals)
    if not distance:
        return []
    return [
        position
        for position, residual in zip(positions, found.residuals, strict=True)
        if abs(residual - centre) * _NORMAL_MAD / distance > OUTLIER
    ]

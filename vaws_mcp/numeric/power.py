"""How many launches a question needs, and what a given number of them can show."""

import math

from vaws_mcp.numeric.student import t_quantile, t_share_below

MOST_ROUNDS = 200
_ALPHA = 0.05


def detectable_pct(error: float, df: int, power: float) -> float:
    """Return the smallest change, in percent, that a two-sided 95 % interval excludes zero for with this power.

    ``error`` is the standard error of the log ratio. The sum of two t quantiles is used, which is close to the exact
    non-central value and never too small.
    """
    reach = t_quantile(1 - _ALPHA / 2, df) + t_quantile(power, df)
    return math.expm1(min(reach * error, 700.0)) * 100


def advised_rounds(launch_spread: float, threshold_pct: float, power: float) -> int | None:
    """Return the smallest even number of rounds that calls a regression of twice the threshold by name.

    ``launch_spread`` is the standard deviation of the log mean between launches. Called by name means: the estimate is
    beyond the threshold and the one-sided 95 % lower bound above zero. None when even 200 rounds do not suffice.
    """
    for rounds in range(4, MOST_ROUNDS + 1, 2):
        if power_of(rounds, launch_spread, threshold_pct) >= power:
            return rounds
    return None


def power_of(rounds: int, launch_spread: float, threshold_pct: float) -> float:
    """Return the probability that a regression of twice the threshold is called so after this many balanced rounds."""
    if launch_spread == 0:
        return 1.0
    df = 2 * rounds - 3
    error = launch_spread * math.sqrt(2 / rounds)
    limit, true = math.log1p(threshold_pct / 100), math.log1p(2 * threshold_pct / 100)
    must_reach = max(limit, t_quantile(1 - _ALPHA, df) * error)
    return t_share_below((true - must_reach) / error, df)

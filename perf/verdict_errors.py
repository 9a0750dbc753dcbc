"""How often the verdict errs, on draws of the noise model: 2 % per iteration, 3 % per launch, 5 % linear drift.

    uv run python perf/verdict_errors.py [--trials 1000] [--strict]

Each trial compares two states of a simulated machine, 3 iterations a launch. Source of the bars: the declared error
rates of the verdict. The last rows show why launches in one block a state, judged by a naive interval, mislead.
"""

import argparse
import math
import random
import sys
from collections.abc import Callable

from vaws_mcp.comparison.verdict import judge_metric
from vaws_mcp.numeric.effect import Effect, Point, state_effect
from vaws_mcp.numeric.student import t_quantile
from vaws_mcp.presets.policies import MetricRule

ITERATION, LAUNCH, DRIFT, ITERATIONS = 0.02, 0.03, 0.05, 3


def draw(rng: random.Random, rounds: int, effect_pct: float, *, interleaved: bool) -> tuple[list[Point], list[Point]]:
    """Return the launches of two states, the second slower by ``effect_pct``."""
    order: list[tuple[int, int]] = []
    if interleaved:
        for number in range(1, rounds + 1):
            order += [(0, number), (1, number)] if number % 2 else [(1, number), (0, number)]
    else:
        order = [(state, number) for state in (0, 1) for number in range(1, rounds + 1)]
    sides: tuple[list[Point], list[Point]] = ([], [])
    for position, (state, number) in enumerate(order):
        drift = DRIFT * position / (len(order) - 1)
        base = math.log(40) + drift + rng.gauss(0, LAUNCH) + (math.log1p(effect_pct / 100) if state else 0)
        values = [math.exp(base + rng.gauss(0, ITERATION)) for _ in range(ITERATIONS)]
        sides[state].append(Point(position, values, number))
    return sides


def naive_differs(first: list[Point], other: list[Point]) -> bool:
    """Say whether a t interval over all iterations, as if each were independent, excludes zero."""
    pools = [[math.log(value) for point in side for value in point.values if value] for side in (first, other)]
    means = [sum(pool) / len(pool) for pool in pools]
    squares = sum((value - mean) ** 2 for pool, mean in zip(pools, means, strict=True) for value in pool)
    df = sum(map(len, pools)) - 2
    error = math.sqrt(squares / df * sum(1 / len(pool) for pool in pools))
    return abs(means[1] - means[0]) > t_quantile(0.975, df) * error


def count(trials: int, seed: int, test: Callable[[random.Random], bool]) -> int:
    """Return in how many seeded trials the test said yes."""
    return sum(test(random.Random(seed * 1_000_003 + number)) for number in range(trials))  # noqa: S311 - a model, no secret


def differs(effect: Effect) -> bool:
    """Say whether the 95 % interval excludes zero."""
    return effect.low_pct is not None and effect.high_pct is not None and not effect.low_pct <= 0 <= effect.high_pct


def rows(trials: int) -> list[tuple[str, int, str, bool]]:
    """Return name, count, bar and whether it holds."""
    rule = MetricRule(direction="lower", max_regression_pct=3)

    def failed(pct: float) -> Callable[[random.Random], bool]:
        def once(rng: random.Random) -> bool:
            effect = state_effect(*draw(rng, 8, pct, interleaved=True), threshold_pct=3)
            return judge_metric("tpot", rule, effect).verdict == "failed"

        return once

    false = count(trials, 1, lambda rng: differs(state_effect(*draw(rng, 8, 0, interleaved=True))))
    wrong, right = count(trials, 2, failed(0)), count(trials, 3, failed(6))
    naive = count(trials, 4, lambda rng: naive_differs(*draw(rng, 8, 0, interleaved=False)))
    honest = count(trials, 4, lambda rng: differs(state_effect(*draw(rng, 8, 0, interleaved=False))))
    share = trials / 1000
    return [
        ("equal states, interleaved: interval excludes zero", false, "<= 65 of 1000", false <= 65 * share),
        ("equal states, interleaved: failed at 3 %", wrong, "<= 50 of 1000", wrong <= 50 * share),
        ("6 % slower, interleaved: failed at 3 %", right, ">= 900 of 1000", right >= 900 * share),
        ("equal states, sequential, naive interval excludes zero", naive, ">= 200 of 1000", naive >= 200 * share),
        ("equal states, sequential, our interval excludes zero", honest, "shown", True),
    ]


def main() -> int:
    """Print the table; with --strict exit 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--strict", action="store_true")
    given = parser.parse_args()
    table = rows(given.trials)
    for name, found, bar, holds in table:
        print(f"{name:58} {found:5d} of {given.trials}   bar {bar:15} {'met' if holds else 'MISSED'}")
    return 1 if given.strict and not all(row[3] for row in table) else 0


if __name__ == "__main__":
    sys.exit(main())

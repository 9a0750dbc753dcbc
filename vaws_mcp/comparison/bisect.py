"""Narrowing a regression to a commit: which commit to measure next, and what its measurement means. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vaws_mcp.comparison.records import LaunchRecord
from vaws_mcp.comparison.states import means
from vaws_mcp.numeric.summary import mean, pct_change

Judged = Literal["good", "bad", "skipped"]
Direction = Literal["lower", "higher"]


@dataclass
class Search:
    """The commits after the good one up to the bad one, oldest first, and what is known about them.

    ``known`` has the last commit as bad from the beginning; the good one stands before the first.
    """

    commits: Sequence[str]
    known: dict[str, Judged] = field(default_factory=dict[str, Judged])

    def bounds(self) -> tuple[int, int]:
        """Return the places of the newest good commit (-1 is the one before all) and of the oldest bad one after it."""
        low = max((self.commits.index(sha) for sha, said in self.known.items() if said == "good"), default=-1)
        bad = [self.commits.index(sha) for sha, said in self.known.items() if said == "bad"]
        return low, min((place for place in bad if place > low), default=len(self.commits) - 1)

    def next(self) -> str | None:
        """Return the commit to measure next: the open one nearest to the middle. None when nothing is left to learn."""
        low, high = self.bounds()
        middle = (low + high) / 2
        open_places = [place for place in range(low + 1, high) if self.commits[place] not in self.known]
        return self.commits[min(open_places, key=lambda place: abs(place - middle))] if open_places else None

    def suspects(self) -> list[str]:
        """Return the commits that may be the first bad one: one, or more when those between could not be measured."""
        low, high = self.bounds()
        return list(self.commits[low + 1 : high + 1])


def metric_of(launches: Sequence[LaunchRecord], metric: str) -> float | None:
    """Return the mean of a metric over launches, each launch counting the same."""
    return mean(means([record]).get(metric) for record in launches)


def regression_pct(good: float | None, other: float | None, direction: Direction) -> float | None:
    """Return the change for the worse in percent of the good value, None when it is unknown."""
    change = pct_change(other, good)
    return None if change is None else change if direction == "lower" else -change


def judge(values: Mapping[str, float | None], good: str, bad: str, sha: str) -> Judged:
    """Say whether a commit's value is nearer to that of the good or of the bad end; unknown is skipped."""
    value, first, last = values[sha], values[good], values[bad]
    if value is None or first is None or last is None:
        return "skipped"
    return "bad" if abs(value - last) <= abs(value - first) else "good"


def direction_of(metric: str) -> Direction:
    """Return which way a metric is better: times are better low, rates and throughputs high."""
    return "lower" if metric.endswith(("_ms", "_s")) else "higher"

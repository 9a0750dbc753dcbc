"""Samples of two or more sides, taken in turn, and the rows of the table that come of them."""

import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

Side = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Row:
    """One line: what was measured on both sides, and whether ``ours <= bar * theirs + extra``."""

    operation: str
    ours: float
    theirs: float
    bar: float
    against: str
    unit: str = "ms"
    extra: float = 0.0

    @property
    def ratio(self) -> float:
        """Ours divided by theirs."""
        return self.ours / self.theirs

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.ours <= self.bar * self.theirs + self.extra

    def as_json(self) -> dict[str, Any]:
        """Return the row with its ratio and verdict."""
        return {**asdict(self), "ratio": self.ratio, "met": self.met}

    def as_line(self) -> str:
        """Return the row as a line of the table."""
        bar = f"{self.bar:.2f} x" + (f" + {self.extra:.0f}" if self.extra else "")
        verdict = "met" if self.met else "NOT MET"
        figures = f"{self.ours:10.2f}{self.theirs:10.2f} {self.unit:3}{self.ratio:7.2f}"
        return f"{self.operation:52}{figures}  <= {bar:13}{verdict:8} {self.against}"


HEADER = f"{'operation':52}{'ours':>10}{'theirs':>10}    {'ratio':>7}  {'bar':16}{'':8} theirs is"


def median(samples: list[float]) -> float:
    """Return the median."""
    return statistics.median(samples)


def p99(samples: list[float]) -> float:
    """Return the value that 99 % of the samples do not exceed."""
    return sorted(samples)[max(0, -(-len(samples) * 99 // 100) - 1)]


async def alternate(sides: dict[str, Side], samples: int, block: int) -> dict[str, list[float]]:
    """Call each side ``samples`` times, in blocks that take turns, each after one call that does not count.

    Units: milliseconds.
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    left = samples
    while left > 0:
        for name, side in sides.items():
            if block > 1:
                await side()
            for _ in range(min(block, left)):
                taken[name].append(await timed(side))
        left -= block
    return taken


async def timed(side: Side) -> float:
    """Return how long one call takes.

    Units: milliseconds.
    """
    begin = time.perf_counter()
    await side()
    return (time.perf_counter() - begin) * 1000

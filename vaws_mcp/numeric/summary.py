"""Mean, spread and change over lists of measurements in which some may be missing.

A value that is None, NaN or infinite is missing. It is left out of the calculation and stays visible as null in the
list it came from, so that position ``i`` of every list belongs to measurement ``i``.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, Field


class MetricSummary(BaseModel):
    """One metric over several measurements."""

    mean: float | None = Field(description="Arithmetic mean of the known values; null when none is known.")
    stddev: float | None = Field(description="Sample standard deviation; null below two known values.")
    values: list[float | None] = Field(description="Every value in order of measurement; null where it is missing.")


def known(values: Iterable[float | None]) -> list[float]:
    """Return the values that are there and finite."""
    return [value for value in values if value is not None and math.isfinite(value)]


def mean(values: Iterable[float | None]) -> float | None:
    """Return the arithmetic mean of the known values, None when there is none."""
    present = known(values)
    return math.fsum(present) / len(present) if present else None


def stddev(values: Iterable[float | None]) -> float | None:
    """Return the sample standard deviation (n - 1) of the known values, None below two."""
    present = known(values)
    if len(present) < 2:
        return None
    centre = math.fsum(present) / len(present)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in present) / (len(present) - 1))


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values, the mean of the middle two for an even number, None when there is none."""
    present = sorted(known(values))
    if not present:
        return None
    middle = len(present) // 2
    return present[middle] if len(present) % 2 else (present[middle - 1] + present[middle]) / 2


def summarise(values: Iterable[float | None]) -> MetricSummary:
    """Return mean, spread and the values themselves."""
    kept = [value if value is not None and math.isfinite(value) else None for value in values]
    return MetricSummary(mean=mean(kept), stddev=stddev(kept), values=kept)


def aggregate(measurements: Sequence[Mapping[str, float | None]]) -> dict[str, MetricSummary]:
    """Summarise every metric that any of the measurements names.

    Shapes: metrics in order of first appearance; each ``values`` is as long as ``measurements``.
    """
    names = dict.fromkeys(name for measurement in measurements for name in measurement)
    return {name: summarise(measurement.get(name) for measurement in measurements) for name in names}


def difference(new: float | None, old: float | None) -> float | None:
    """Return ``new - old``, None when either is missing."""
    pair = known((new, old))
    return pair[0] - pair[1] if len(pair) == 2 else None


def pct_change(new: float | None, old: float | None) -> float | None:
    """Return the change from ``old`` to ``new`` in percent of ``old``.

    None when either is missing, or when ``old`` is not above zero: a share of nothing has no meaning.
    """
    delta = difference(new, old)
    return None if delta is None or old is None or old <= 0 else delta / old * 100

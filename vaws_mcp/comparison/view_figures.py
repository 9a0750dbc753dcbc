"""The figures of a comparison: launches with their interval, launches in order, and distributions of requests."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from vaws_mcp.bench.result_objects import ParseFailure
from vaws_mcp.bench.samples import read_samples
from vaws_mcp.comparison.records import LaunchRecord
from vaws_mcp.comparison.states import means, of_case
from vaws_mcp.numeric.student import t_quantile
from vaws_mcp.numeric.summary import known, mean, stddev
from vaws_mcp.render.curves import Distribution, OrderChart, ShareChart, Track, order_chart, share_chart
from vaws_mcp.render.figures import DotChart, DotGroup, DotRow, Figure, dot_chart

CHARTS = (("mean_tpot_ms", "TPOT", "ms", "lower"), ("output_throughput", "Output throughput", "tok/s", "higher"))
DETAILED = (("ttft", "TTFT"), ("tpot", "TPOT"))
MOST_DETAILED_BYTES = 64 << 20

Launches = Sequence[LaunchRecord]


def figures_of(launches: Launches) -> list[Figure]:
    """Return all figures of a comparison, in the order in which they are read."""
    several = len({record.number for record in launches}) > len(_labels(launches))
    figures = [_dots(launches, *chart, several=several) for chart in CHARTS]
    if several:
        figures += [_order(of_case(launches, case), _title(launches, case)) for case in _cases(launches)]
    return [*figures, *_distributions(launches)]


def _labels(launches: Launches) -> list[str]:
    return list(dict.fromkeys(record.label for record in launches))


def _cases(launches: Launches) -> list[str]:
    return list(dict.fromkeys(record.case for record in launches))


def _of(launches: Launches, label: str) -> list[LaunchRecord]:
    return [record for record in launches if record.label == label]


def _title(launches: Launches, case: str) -> str:
    return case if len(_cases(launches)) > 1 else ""


def _behind(title: str) -> str:
    return f", {title}" if title else ""


def _dots(launches: Launches, metric: str, name: str, unit: str, better: str, *, several: bool) -> Figure:
    groups = [DotGroup(_title(launches, case), _rows(of_case(launches, case), metric)) for case in _cases(launches)]
    each = "launch" if several else "counted iteration"
    caption = f"{name} of each {each}; the mean is marked ({better} is better)"
    return Figure(caption, dot_chart(DotChart(metric=name, unit=unit, groups=groups, better=better)))


def _rows(launches: Launches, metric: str) -> list[DotRow]:
    """Return one row a state: a dot for each launch, or for each counted iteration of the only launch."""
    rows: list[DotRow] = []
    for label in _labels(launches):
        own = _of(launches, label)
        values = [means([record]).get(metric) for record in own]
        interval = launch_interval(values)
        if len(own) == 1:
            values = [found.get(metric) for found in own[0].counted]
        rows.append(DotRow(label, values, means(own).get(metric), interval))
    return rows


def launch_interval(values: Sequence[float | None]) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean over launches, None below two."""
    count, centre, spread = len(known(values)), mean(values), stddev(values)
    if count < 2 or centre is None or spread is None:
        return None
    half = t_quantile(0.975, count - 1) * spread / math.sqrt(count)
    return centre - half, centre + half


def _order(launches: Launches, case: str) -> Figure:
    metric, name, unit, _better = CHARTS[0]
    tracks = [
        Track(
            label,
            [record.number for record in _of(launches, label)],
            [means([record]).get(metric) for record in _of(launches, label)],
        )
        for label in _labels(launches)
    ]
    chart = OrderChart(case, name, unit, "launch", tracks)
    return Figure(f"{name} of the launches in the order they happened{_behind(case)}", order_chart(chart))


def _distributions(launches: Launches) -> list[Figure]:
    figures: list[Figure] = []
    for case in _cases(launches):
        chosen = of_case(launches, case)
        found = {label: _requests(_of(chosen, label)) for label in _labels(chosen)}
        for key, name in DETAILED:
            shown = [Distribution(label, values[key]) for label, values in found.items() if values[key]]
            if shown:
                title = _title(launches, case)
                caption = f"{name} of single requests in counted iterations{_behind(title)}"
                figures.append(Figure(caption, share_chart(ShareChart(title, name, "ms", shown))))
    return figures


def _requests(launches: Launches) -> dict[str, list[float]]:
    """Return TTFT and TPOT of single requests, where results were saved in detail. Units: ms."""
    found: dict[str, list[float]] = {key: [] for key, _name in DETAILED}
    for text in _detailed(launches):
        try:
            samples = read_samples(text)
        except ParseFailure:
            continue
        found["ttft"] += samples.ttft_ms
        found["tpot"] += samples.tpot_ms
    return found


def _detailed(launches: Launches) -> Iterator[str]:
    """Yield the results of counted iterations with single requests, as long as they are small enough to be drawn."""
    left = MOST_DETAILED_BYTES
    for record in launches:
        for run, path in zip(record.per_run, map(Path, record.result_paths), strict=False):
            if run["warmup"] or not path.is_file() or (left := left - path.stat().st_size) < 0:
                continue
            text = path.read_text("utf-8", "replace")
            if '"ttfts"' in text:
                yield text

"""Charts with both axes: measurements in the order they were made, and distributions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vaws_mcp.render.canvas import HUES, INK, MUTED, RIGHT_IN, WIDTH_IN, axis_name, drawn, dress, short
from vaws_mcp.render.plain import line

_LEFT_IN = 0.75
_HEIGHT_IN = 2.6
_BOTTOM_IN = 0.62
_TOP_IN = 0.34
_MOST_STEPS = 400
_LEGEND_COLUMNS = 4


@dataclass(frozen=True)
class Track:
    """One state: its measurements at their places on the horizontal axis. Missing ones are not drawn."""

    label: str
    places: Sequence[float]
    values: Sequence[float | None]


@dataclass(frozen=True)
class OrderChart:
    """A metric in the order it was measured, so that a drift can be seen. ``ticks`` name places on the axis."""

    title: str
    metric: str
    unit: str
    across: str
    tracks: Sequence[Track]
    ticks: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Distribution:
    """All single values of one state."""

    label: str
    values: Sequence[float]


@dataclass(frozen=True)
class ShareChart:
    """For each state the share of requests that needed at most so long."""

    title: str
    metric: str
    unit: str
    distributions: Sequence[Distribution]


def order_chart(chart: OrderChart) -> str:
    """Draw a metric in order as SVG, the same bytes for the same input."""

    def draw(canvas: Any) -> None:
        axes = _axes(canvas, chart.title)
        for index, track in enumerate(chart.tracks):
            pairs = [(x, y) for x, y in zip(track.places, track.values, strict=True) if y is not None]
            xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
            colour = HUES[index % len(HUES)]
            axes.plot(xs, ys, "o-", color=colour, markersize=6, linewidth=1, alpha=0.8, label=short(track.label, 22))
        axes.ticklabel_format(axis="y", useOffset=False, style="plain")
        if chart.ticks:
            axes.set_xticks([place for place, _ in chart.ticks])
            names = [short(name, 12) for _, name in chart.ticks]
            axes.set_xticklabels(names, color=MUTED, parse_math=False, rotation=30 if len(names) > 8 else 0)
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        _finish(canvas, axes, chart.across, axis_name(chart.metric, chart.unit), len(chart.tracks))

    return drawn(draw, _HEIGHT_IN, salt=repr(chart), name=f"{line(chart.metric)} in order {line(chart.title)}")


def share_chart(chart: ShareChart) -> str:
    """Draw the cumulative distribution of each state as SVG, the same bytes for the same input."""

    def draw(canvas: Any) -> None:
        axes = _axes(canvas, chart.title)
        for index, found in enumerate(chart.distributions):
            ordered = sorted(found.values)
            steps = _thinned(ordered)
            shares = [100 * (place + 1) / len(ordered) for place, _ in steps]
            colour = HUES[index % len(HUES)]
            axes.step([value for _, value in steps], shares, where="post", color=colour, label=short(found.label, 22))
        axes.set_ylim(0, 102)
        across = axis_name(chart.metric, chart.unit)
        _finish(canvas, axes, across, "requests (%)", len(chart.distributions))

    return drawn(draw, _HEIGHT_IN, salt=repr(chart), name=f"Distribution of {line(chart.metric)} {line(chart.title)}")


def _thinned(ordered: list[float]) -> list[tuple[int, float]]:
    """Return places and values, at most some hundred: a page must stay small, and more cannot be seen."""
    step = max(1, len(ordered) // _MOST_STEPS)
    kept = list(enumerate(ordered))[::step]
    last = (len(ordered) - 1, ordered[-1])
    return kept if kept[-1] == last else [*kept, last]


def _axes(canvas: Any, title: str) -> Any:
    height = _HEIGHT_IN - _BOTTOM_IN - _TOP_IN
    size = ((WIDTH_IN - _LEFT_IN - RIGHT_IN) / WIDTH_IN, height / _HEIGHT_IN)
    axes = canvas.add_axes((_LEFT_IN / WIDTH_IN, _BOTTOM_IN / _HEIGHT_IN, *size))
    if title:
        canvas.text(0, 1 - 0.12 / _HEIGHT_IN, short(title, 60), color=INK, weight="bold", va="center", parse_math=False)
    return axes


def _finish(canvas: Any, axes: Any, across: str, upward: str, tracks: int) -> None:
    dress(axes, grid="y")
    axes.margins(x=0.04, y=0.15)
    axes.set_xlabel(short(across, 60), color=MUTED, parse_math=False)
    axes.set_ylabel(short(upward, 40), color=MUTED, fontsize=9, parse_math=False)
    legend = canvas.legend(
        loc="upper right", ncols=min(tracks, _LEGEND_COLUMNS), frameon=False, fontsize=9, labelcolor=INK
    )
    for text in legend.get_texts():
        text.set_parse_math(False)

"""Charts as SVG: dots for what was measured, a bar for the mean, one row per state.

The drawing library is imported inside the function that draws. Its global drawing state is not used. Colours are
CSS variables with a fallback, so one figure serves a light and a dark page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vaws_mcp.render.canvas import HUES, INK, MUTED, RIGHT_IN, WIDTH_IN, axis_name, drawn, dress, short
from vaws_mcp.render.plain import line

_LABELS_IN = 1.75
_ROW_IN = 0.46
_TITLE_IN = 0.3
_TICKS_IN = 0.34
_AXIS_NAME_IN = 0.26
_LABEL_LIMIT = 22


@dataclass(frozen=True)
class DotRow:
    """One state in one case: a dot for each measurement and their mean. Missing values are not drawn.

    ``interval`` is drawn as a line below the dots; None is unknown.
    """

    label: str
    values: Sequence[float | None]
    mean: float | None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class DotGroup:
    """The rows that belong to one case. The first row is what the others are compared with."""

    title: str
    rows: Sequence[DotRow]


@dataclass(frozen=True)
class DotChart:
    """One metric over all cases and states."""

    metric: str
    unit: str
    groups: Sequence[DotGroup]
    better: str | None = None
    digits: int = 2


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption. ``svg`` is inserted into pages as it is, so it must come from this package."""

    caption: str
    svg: str


def dot_chart(chart: DotChart) -> str:
    """Draw one metric as SVG, the same bytes for the same input.

    Shapes: one panel per case with an axis of its own, which does not start at zero; one row per state.
    """
    height = sum(_panel_height(chart, group) for group in chart.groups) + _AXIS_NAME_IN
    name = f"{line(chart.metric)} of each state"
    return drawn(lambda canvas: _draw_panels(canvas, chart, height), height, salt=repr(chart), name=name)


def _panel_height(chart: DotChart, group: DotGroup) -> float:
    """Height of one case in inches, with its title (when there are several cases) and its ticks."""
    return (_TITLE_IN if len(chart.groups) > 1 else 0) + _ROW_IN * max(1, len(group.rows)) + _TICKS_IN


def _draw_panels(canvas: Any, chart: DotChart, height: float) -> None:
    top = height
    width = (WIDTH_IN - _LABELS_IN - RIGHT_IN) / WIDTH_IN
    for group in chart.groups:
        bottom = top - _panel_height(chart, group)
        rows = _ROW_IN * max(1, len(group.rows)) / height
        axes = canvas.add_axes((_LABELS_IN / WIDTH_IN, (bottom + _TICKS_IN) / height, width, rows))
        if len(chart.groups) > 1:
            title = short(group.title, 90)
            canvas.text(0, (top - 0.17) / height, title, color=INK, weight="bold", va="center", parse_math=False)
        _draw_group(axes, group, chart.digits)
        axes.margins(x=0.08)
        dress(axes)
        top = bottom
    name = axis_name(chart.metric, chart.unit, chart.better)
    middle = _LABELS_IN / WIDTH_IN + width / 2
    canvas.text(middle, 0.13 / height, name, color=MUTED, ha="center", va="center", parse_math=False)


def _draw_group(axes: Any, group: DotGroup, digits: int) -> None:
    """Draw the rows of one case from top to bottom."""
    _draw_baseline(axes, group)
    axes.ticklabel_format(axis="x", useOffset=False, style="plain")
    for index, row in enumerate(group.rows):
        _draw_row(axes, row, index, HUES[index % len(HUES)], digits)
    axes.set_yticks(range(len(group.rows)))
    labels = [short(row.label, _LABEL_LIMIT) for row in group.rows]
    axes.set_yticklabels(labels, color=INK, parse_math=False)
    axes.set_ylim(max(1, len(group.rows)) - 0.5, -0.5)
    if not any(_measured(row) for row in group.rows):
        axes.set_xticks([])
        axes.text(0.5, 0.5, "no measurement", transform=axes.transAxes, color=MUTED, ha="center", va="center")


def _draw_baseline(axes: Any, group: DotGroup) -> None:
    """Draw the first state's mean through all rows of the case, so that a shift can be seen."""
    first = group.rows[0].mean if group.rows else None
    if first is not None and len(group.rows) > 1:
        axes.plot([first, first], [0, len(group.rows) - 0.5], color=MUTED, linewidth=0.9, dashes=(3, 3))


def _draw_row(axes: Any, row: DotRow, y: int, colour: str, digits: int) -> None:
    values = _measured(row)
    axes.plot(values, [y] * len(values), "o", markersize=6.5, color=colour, alpha=0.55, markeredgewidth=0)
    if row.interval is not None:
        axes.plot(row.interval, [y + 0.3, y + 0.3], color=colour, linewidth=1.6, solid_capstyle="butt")
    if row.mean is None:
        return
    axes.plot([row.mean, row.mean], [y - 0.18, y + 0.18], color=colour, linewidth=2.6, solid_capstyle="round")
    axes.annotate(
        f"{row.mean:.{digits}f}", (row.mean, y), xytext=(0, 12), textcoords="offset points", ha="center", va="center",
        color=INK, fontsize=9, annotation_clip=False, parse_math=False,
    )  # fmt: skip


def _measured(row: DotRow) -> list[float]:
    return [value for value in row.values if value is not None]

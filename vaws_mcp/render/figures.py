"""Charts as SVG: dots for what was measured, a bar for the mean, one row per state.

The drawing library is imported inside the function that draws. Its global drawing state is not used. Colours are
CSS variables with a fallback, so one figure serves a light and a dark page.
"""

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from vaws_mcp.render.plain import line

_WIDTH_IN = 8.8
_LABELS_IN = 1.75
_RIGHT_IN = 0.2
_ROW_IN = 0.46
_TITLE_IN = 0.3
_TICKS_IN = 0.34
_AXIS_NAME_IN = 0.26
_LABEL_LIMIT = 22
_SERIES = 6

# Stand-ins that no drawing uses otherwise; each becomes a CSS variable in the SVG.
_INK, _MUTED, _GRID = "#010101", "#020202", "#030303"
_HUES = tuple(f"#0401{index:02x}" for index in range(_SERIES))
_VARIABLES = {
    _INK: "var(--ink, #1b2430)",
    _MUTED: "var(--muted, #5b6675)",
    _GRID: "var(--grid, #dfe3e8)",
    **dict(
        zip(
            _HUES,
            (
                f"var(--series-{index}, {colour})"
                for index, colour in enumerate(("#2f6fb3", "#c8572b", "#3d8b57", "#8059b5", "#a8841c", "#3a8f9c"))
            ),
            strict=True,
        )
    ),
}
_STAND_IN = re.compile("|".join(_VARIABLES))
_HEAD = re.compile(r"^.*?(?=<svg\b)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_TAG = re.compile(r"<[^<>]+>")
_GROUP_ID = re.compile(r'^<g id="[^"]*"')
_FONT_FAMILY = re.compile(r"font-family: [^;\"]*")


@dataclass(frozen=True)
class DotRow:
    """One state in one case: a dot for each measured iteration and its mean. Missing values are not drawn."""

    label: str
    values: Sequence[float | None]
    mean: float | None


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
    """A drawing with its caption. ``svg`` is inserted into pages as it is, so it must come from this module."""

    caption: str
    svg: str


def dot_chart(chart: DotChart) -> str:
    """Draw one metric as SVG, the same bytes for the same input.

    Shapes: one panel per case with an axis of its own, which does not start at zero; one row per state.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    # A user's own settings must not change a report; the salt keeps ids of several figures on one page apart.
    settings: dict[Any, Any] = {key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"}
    settings |= {"svg.fonttype": "none", "svg.hashsalt": repr(chart), "font.size": 10}
    height = sum(_panel_height(chart, group) for group in chart.groups) + _AXIS_NAME_IN
    target = io.StringIO()
    with mpl.rc_context(settings), warnings.catch_warnings():
        # Characters without a glyph in the measuring font are shown by the browser's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        canvas = Canvas(figsize=(_WIDTH_IN, height))
        _draw_panels(canvas, chart, height)
        canvas.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _themed(target.getvalue(), chart)


def _panel_height(chart: DotChart, group: DotGroup) -> float:
    """Height of one case in inches, with its title (when there are several cases) and its ticks."""
    return (_TITLE_IN if len(chart.groups) > 1 else 0) + _ROW_IN * max(1, len(group.rows)) + _TICKS_IN


def _draw_panels(canvas: Any, chart: DotChart, height: float) -> None:
    top = height
    width = (_WIDTH_IN - _LABELS_IN - _RIGHT_IN) / _WIDTH_IN
    for group in chart.groups:
        bottom = top - _panel_height(chart, group)
        rows = _ROW_IN * max(1, len(group.rows)) / height
        axes = canvas.add_axes((_LABELS_IN / _WIDTH_IN, (bottom + _TICKS_IN) / height, width, rows))
        if len(chart.groups) > 1:
            title = _short(group.title, 90)
            canvas.text(0, (top - 0.17) / height, title, color=_INK, weight="bold", va="center", parse_math=False)
        _draw_group(axes, group, chart.digits)
        _dress(axes)
        top = bottom
    direction = f" · {_short(chart.better, 10)} is better" if chart.better else ""
    name = f"{_short(chart.metric, 60)} ({_short(chart.unit, 20)}){direction}"
    middle = _LABELS_IN / _WIDTH_IN + width / 2
    canvas.text(middle, 0.13 / height, name, color=_MUTED, ha="center", va="center", parse_math=False)


def _draw_group(axes: Any, group: DotGroup, digits: int) -> None:
    """Draw the rows of one case from top to bottom."""
    _draw_baseline(axes, group)
    axes.ticklabel_format(axis="x", useOffset=False, style="plain")
    for index, row in enumerate(group.rows):
        _draw_row(axes, row, index, _HUES[index % _SERIES], digits)
    axes.set_yticks(range(len(group.rows)))
    labels = [_short(row.label, _LABEL_LIMIT) for row in group.rows]
    axes.set_yticklabels(labels, color=_INK, parse_math=False)
    axes.set_ylim(max(1, len(group.rows)) - 0.5, -0.5)
    if not any(_measured(row) for row in group.rows):
        axes.set_xticks([])
        axes.text(0.5, 0.5, "no measurement", transform=axes.transAxes, color=_MUTED, ha="center", va="center")


def _draw_baseline(axes: Any, group: DotGroup) -> None:
    """Draw the first state's mean through all rows of the case, so that a shift can be seen."""
    first = group.rows[0].mean if group.rows else None
    if first is not None and len(group.rows) > 1:
        axes.plot([first, first], [0, len(group.rows) - 0.5], color=_MUTED, linewidth=0.9, dashes=(3, 3))


def _draw_row(axes: Any, row: DotRow, y: int, colour: str, digits: int) -> None:
    values = _measured(row)
    axes.plot(values, [y] * len(values), "o", markersize=6.5, color=colour, alpha=0.55, markeredgewidth=0)
    if row.mean is None:
        return
    axes.plot([row.mean, row.mean], [y - 0.18, y + 0.18], color=colour, linewidth=2.6, solid_capstyle="round")
    axes.annotate(
        f"{row.mean:.{digits}f}", (row.mean, y), xytext=(0, 12), textcoords="offset points", ha="center", va="center",
        color=_INK, fontsize=9, annotation_clip=False, parse_math=False,
    )  # fmt: skip


def _measured(row: DotRow) -> list[float]:
    return [value for value in row.values if value is not None]


def _dress(axes: Any) -> None:
    axes.margins(x=0.08)
    axes.grid(axis="x", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", colors=_MUTED, length=0, labelsize=9)
    axes.tick_params(axis="y", length=0, pad=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)


def _short(text: str, limit: int) -> str:
    plain = line(text)
    return plain if len(plain) <= limit else f"{plain[: limit - 1]}…"


def _themed(svg: str, chart: DotChart) -> str:
    """Make the drawing fit for a page: no prologue, no repeated ids, the page's font and colours, a name."""
    svg = _METADATA.sub("", _HEAD.sub("", svg))
    # Only tags are touched: a label may contain anything, also what looks like a style.
    svg = _TAG.sub(_themed_tag, svg)
    name = escape(f"{line(chart.metric)} of each state")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1).strip()


def _themed_tag(match: re.Match[str]) -> str:
    tag = _GROUP_ID.sub("<g", match.group(0))
    tag = _STAND_IN.sub(lambda colour: _VARIABLES[colour.group(0)], tag)
    return _FONT_FAMILY.sub("font-family: var(--font, sans-serif)", tag)

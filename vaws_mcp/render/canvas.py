"""What all figures share: colours that follow the page, text that stays text, and SVG that fits into a page."""

import io
import re
import warnings
from collections.abc import Callable
from html import escape
from typing import Any

from vaws_mcp.render.plain import line

WIDTH_IN = 8.8
RIGHT_IN = 0.2
SERIES = 6

# Stand-ins that no drawing uses otherwise; each becomes a CSS variable in the SVG.
INK, MUTED, GRID = "#010101", "#020202", "#030303"
HUES = tuple(f"#0401{index:02x}" for index in range(SERIES))
_COLOURS = ("#2f6fb3", "#c8572b", "#3d8b57", "#8059b5", "#a8841c", "#3a8f9c")
_VARIABLES = {
    INK: "var(--ink, #1b2430)",
    MUTED: "var(--muted, #5b6675)",
    GRID: "var(--grid, #dfe3e8)",
    **{hue: f"var(--series-{index}, {_COLOURS[index]})" for index, hue in enumerate(HUES)},
}
_STAND_IN = re.compile("|".join(_VARIABLES))
_HEAD = re.compile(r"^.*?(?=<svg\b)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_TAG = re.compile(r"<[^<>]+>")
_GROUP_ID = re.compile(r'^<g id="[^"]*"')
_FONT_FAMILY = re.compile(r"font-family: [^;\"]*")


def drawn(draw: Callable[[Any], None], height_in: float, *, salt: str, name: str) -> str:
    """Return what ``draw`` puts on a canvas as SVG for a page, the same bytes for the same input.

    ``salt`` tells figures of one page apart; ``name`` is what a screen reader says.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    # A user's own settings must not change a report; the salt keeps ids of several figures on one page apart.
    settings: dict[Any, Any] = {key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"}
    settings |= {"svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 10}
    target = io.StringIO()
    with mpl.rc_context(settings), warnings.catch_warnings():
        # Characters without a glyph in the measuring font are shown by the browser's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        canvas = Canvas(figsize=(WIDTH_IN, height_in))
        draw(canvas)
        canvas.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _themed(target.getvalue(), name)


def short(text: str, limit: int) -> str:
    """Return untrusted text as one line of limited length."""
    plain = line(text)
    return plain if len(plain) <= limit else f"{plain[: limit - 1]}…"


def dress(axes: Any, grid: str = "x") -> None:
    """Give axes the look of the page: a light grid, no frame."""
    axes.grid(axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", colors=MUTED, length=0, labelsize=9)
    axes.tick_params(axis="y", colors=MUTED if grid != "x" else INK, length=0, pad=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)


def axis_name(metric: str, unit: str, better: str | None = None) -> str:
    """Return the words beside an axis."""
    direction = f" · {short(better, 10)} is better" if better else ""
    return f"{short(metric, 60)} ({short(unit, 20)}){direction}"


def _themed(svg: str, name: str) -> str:
    """Make the drawing fit for a page: no prologue, no repeated ids, the page's font and colours, a name."""
    svg = _METADATA.sub("", _HEAD.sub("", svg))
    # Only tags are touched: a label may contain anything, also what looks like a style.
    svg = _TAG.sub(_themed_tag, svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(line(name))}" ', 1).strip()


def _themed_tag(match: re.Match[str]) -> str:
    tag = _GROUP_ID.sub("<g", match.group(0))
    tag = _STAND_IN.sub(lambda colour: _VARIABLES[colour.group(0)], tag)
    return _FONT_FAMILY.sub("font-family: var(--font, sans-serif)", tag)

"""The report of a comparison as Markdown and as one self-contained HTML page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from vaws_mcp.core.files import write_atomic
from vaws_mcp.render.delimited import table_csv
from vaws_mcp.render.figures import Figure
from vaws_mcp.render.html import page
from vaws_mcp.render.markdown import code_block, escape, table_markdown
from vaws_mcp.render.plain import line
from vaws_mcp.render.tables import Column, Table, cell_text

NO_POLICY = "no policy declared"
SIMULATED_NOTE = "Simulated: these numbers come from a simulated container and say nothing about real hardware."

_DELTA = Column("", format="signed_percent", digits=1)


class Fact(NamedTuple):
    """A name and its value, both as text."""

    name: str
    value: str


class Setting(NamedTuple):
    """An effective setting and where it came from, such as argument, preset or default."""

    name: str
    value: str
    origin: str = ""


class StateLine(NamedTuple):
    """A compared state of the code: its label, what was asked for, and the commit that this was."""

    label: str
    ref: str
    sha: str


class Delta(NamedTuple):
    """The change of one metric of one state against the first state, in percent. None is unknown.

    ``interval`` is the 95 % interval of it; None when too few launches tell one.
    """

    state: str
    metric: str
    pct: float | None
    case: str = ""
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class ComparisonReport:
    """Everything a report shows, in the order in which it is read. Numbers are already computed.

    ``tables`` are further tables with titles of their own. ``rows`` is what ``report.csv`` holds.
    """

    title: str
    headline: str
    deltas: Sequence[Delta]
    table: Table
    simulated: bool = False
    verdict: str = NO_POLICY
    tables: Sequence[Table] = ()
    rows: Table | None = None
    figures: Sequence[Figure] = ()
    states: Sequence[StateLine] = ()
    facts: Sequence[Fact] = ()
    settings: Sequence[Setting] = ()
    commands: Sequence[str] = ()
    warnings: Sequence[str] = ()


def delta_text(delta: Delta) -> str:
    """Return a change with sign and percent, as in ``+9.8 %``."""
    return cell_text(_DELTA, delta.pct) if delta.pct is not None else "unknown"


def interval_text(delta: Delta) -> str:
    """Return the interval of a change, as in ``95 %: +7.1 to +12.4 %``; empty when there is none."""
    if delta.interval is None:
        return ""
    low, high = delta.interval
    return f"95 %: {low:+.1f} to {high:+.1f} %"


def _change(delta: Delta) -> str:
    interval = interval_text(delta)
    return f"{delta.metric} {delta_text(delta)}{f' ({interval})' if interval else ''}"


def headline(first: str, deltas: Sequence[Delta], verdict: str = NO_POLICY) -> str:
    """Return the sentence a report begins with: the verdict, and every state's change against the first."""
    states: dict[tuple[str, str], list[str]] = {}
    for delta in deltas:
        states.setdefault((delta.state, delta.case), []).append(_change(delta))
    parts = [
        f"{state}{f' ({case})' if case else ''}: {', '.join(changes)}" for (state, case), changes in states.items()
    ]
    changes = f"Against {first}, {'; '.join(parts) or 'nothing could be compared'}."
    return line(f"{changes} Verdict: {verdict}." if verdict == NO_POLICY else f"Verdict: {verdict}. {changes}")


def write_report(view: ComparisonReport, out_dir: Path) -> dict[str, Path]:
    """Write ``report.md``, ``report.html`` and, with ``rows``, ``report.csv``, each as a whole or not at all.

    Raises: OSError when the directory cannot be written.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    paths = {"markdown": out_dir / "report.md", "html": out_dir / "report.html"}
    write_atomic(paths["markdown"], report_markdown(view).encode())
    write_atomic(paths["html"], report_html(view).encode())
    if view.rows is not None:
        paths["csv"] = out_dir / "report.csv"
        write_atomic(paths["csv"], table_csv(view.rows).encode())
    return paths


def report_html(view: ComparisonReport) -> str:
    """Return the report as one page that needs no network and runs no script."""
    changes = [(delta, delta_text(delta), interval_text(delta)) for delta in view.deltas]
    return page("report.html.j2", view=view, changes=changes, simulated_note=SIMULATED_NOTE)


def report_markdown(view: ComparisonReport) -> str:
    """Return the report as Markdown; figures are only in the page."""
    parts = [f"# {escape(view.title)}", f"**{escape(view.headline)}**"]
    if view.simulated:
        parts.append(f"> **{escape(SIMULATED_NOTE)}**")
    if view.warnings:
        parts += ["## Warnings", _bullets(view.warnings)]
    parts += ["## Results", table_markdown(view.table)]
    for table in view.tables:
        parts += [f"## {escape(table.title or 'More')}", table_markdown(table)]
    if view.figures:
        parts.append("Figures are in `report.html`: " + "; ".join(escape(figure.caption) for figure in view.figures))
    parts += _sections(view)
    return "\n\n".join(parts) + "\n"


def _sections(view: ComparisonReport) -> list[str]:
    """Return what stands below the results: states, environment, settings, commands."""
    sections = [
        ("States", ("State", "Asked for", "Commit"), view.states),
        ("Environment", ("Fact", "Value"), view.facts),
        ("Settings", ("Setting", "Value", "From"), view.settings),
    ]
    parts: list[str] = []
    for title, columns, rows in sections:
        if rows:
            parts += [f"## {title}", table_markdown(Table([Column(name) for name in columns], rows))]
    if view.commands:
        parts += ["## Commands", *(code_block(command, "sh") for command in view.commands)]
    return parts


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {escape(text)}" for text in texts)

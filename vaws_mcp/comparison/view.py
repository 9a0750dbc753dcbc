"""A comparison as tables, figures and facts for a report."""

import shlex
from collections.abc import Sequence

from vaws_mcp.bench.measure import Launch
from vaws_mcp.comparison.models import BenchCompareResult, ComparisonRow
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.render.figures import DotChart, DotGroup, DotRow, Figure, dot_chart
from vaws_mcp.render.report import ComparisonReport, Delta, Fact, Setting, StateLine, headline
from vaws_mcp.render.tables import Column, Table

CHARTS = (("mean_tpot_ms", "TPOT", "ms", "lower"), ("output_throughput", "Output throughput", "tok/s", "higher"))


def report_of(
    result: BenchCompareResult, launches: Sequence[Launch], endpoint: Endpoint, warnings: Sequence[str]
) -> ComparisonReport:
    """Return the report of a finished comparison."""
    rows = result.comparison
    deltas = [
        delta
        for row in rows[1:]
        for delta in (
            Delta(row.state, "TPOT", row.delta_tpot_pct_vs_first),
            Delta(row.state, "output throughput", row.delta_output_throughput_pct_vs_first),
        )
    ]
    return ComparisonReport(
        title=f"Comparison of {len(rows)} states: {result.config['served_model_name']}",
        headline=headline(rows[0].state, deltas),
        deltas=deltas,
        table=comparison_table(rows),
        simulated=endpoint.simulated,
        figures=_figures(launches),
        states=[StateLine(state["label"], state["ref"], state["sha"]) for state in result.state_results],
        facts=_facts(result, endpoint),
        settings=[Setting(name, _text(value)) for name, value in result.config.items() if value not in (None, [], {})],
        commands=[shlex.join(words) for words in _commands(result)],
        warnings=list(warnings),
    )


def comparison_table(rows: Sequence[ComparisonRow]) -> Table:
    """Return the rows as a table with units."""
    columns = [
        Column("State"),
        Column("Case"),
        Column("TPOT", unit="ms", format="number", digits=2),
        Column("Δ TPOT", unit="ms", format="signed", digits=2),
        Column("Δ TPOT", unit="%", format="signed_percent", digits=1),
        Column("Output", unit="tok/s", format="number", digits=1),
        Column("Δ output", unit="%", format="signed_percent", digits=1),
        Column("Acceptance", format="number", digits=3),
    ]
    cells = [
        [
            row.state,
            row.case,
            row.mean_tpot_ms,
            row.delta_tpot_ms_vs_first,
            row.delta_tpot_pct_vs_first,
            row.output_throughput,
            row.delta_output_throughput_pct_vs_first,
            row.spec_decode_acceptance_rate,
        ]
        for row in rows
    ]
    if all(row.spec_decode_acceptance_rate is None for row in rows):
        columns, cells = columns[:-1], [line[:-1] for line in cells]
    return Table(columns, cells)


def _figures(launches: Sequence[Launch]) -> list[Figure]:
    figures: list[Figure] = []
    for metric, name, unit, better in CHARTS:
        rows = [
            DotRow(launch.label, [found.get(metric) for found in launch.counted], launch.means().get(metric))
            for launch in launches
        ]
        chart = DotChart(metric=name, unit=unit, groups=[DotGroup("", rows)], better=better)
        caption = f"{name} of each counted iteration; the mean is marked ({better} is better)"
        figures.append(Figure(caption, dot_chart(chart)))
    return figures


def _facts(result: BenchCompareResult, endpoint: Endpoint) -> list[Fact]:
    hello = endpoint.hello
    return [
        Fact("Task", result.task_id),
        Fact("Model", result.model),
        Fact("Endpoint", endpoint.config.address),
        Fact("Host", f"{hello.get('hostname')} ({hello.get('platform')}, boot {str(hello.get('boot_id'))[:8]})"),
    ]


def _commands(result: BenchCompareResult) -> list[list[str]]:
    """Return the commands of the first state; the other states differ only in the checked-out code."""
    launch = result.state_results[0]["launch"]
    return [launch["command"], launch["bench_command"]]


def _text(value: object) -> str:
    """Return a setting as a person would type it."""
    if isinstance(value, list):
        return shlex.join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items())
    return str(value)

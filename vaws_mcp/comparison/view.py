"""A comparison as tables, figures and facts for a report."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vaws_mcp.comparison.models import BenchCompareResult, ComparisonRow, EffectRow, JudgementRow
from vaws_mcp.comparison.records import LaunchRecord
from vaws_mcp.comparison.states import means
from vaws_mcp.comparison.view_figures import figures_of
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.render.report import NO_POLICY, ComparisonReport, Delta, Fact, Setting, StateLine, headline
from vaws_mcp.render.tables import Cell, Column, Table

SHOWN = (("mean_tpot_ms", "TPOT"), ("output_throughput", "output throughput"))
MAIN = (
    ("mean_ttft_ms", "TTFT", "ms", 1),
    ("mean_tpot_ms", "TPOT", "ms", 2),
    ("output_throughput", "Output", "tok/s", 1),
)


def report_of(
    result: BenchCompareResult, launches: Sequence[LaunchRecord], endpoint: Endpoint, warnings: Sequence[str]
) -> ComparisonReport:
    """Return the report of a finished comparison."""
    rows = result.comparison
    deltas = _deltas(result)
    verdict = f"{result.verdict} (policy {result.policy})" if result.verdict else NO_POLICY
    origins = result.config_origin
    states = list(dict.fromkeys(row.state for row in rows))
    return ComparisonReport(
        title=f"Comparison of {len(states)} states: {result.config['served_model_name']}",
        headline=headline(rows[0].state, deltas, verdict),
        verdict=verdict,
        deltas=deltas,
        table=comparison_table(rows),
        tables=_tables(result, launches),
        rows=csv_table(launches),
        simulated=endpoint.simulated,
        figures=figures_of(launches),
        states=[StateLine(state["label"], state["ref"], state["sha"]) for state in result.state_results],
        facts=_facts(result, launches, endpoint),
        settings=[
            Setting(name, _text(value), origins.get(name, ""))
            for name, value in result.config.items()
            if value not in (None, [], {})
        ],
        commands=[shlex.join(words) for words in _commands(result, launches) if words],
        warnings=list(warnings),
    )


def _deltas(result: BenchCompareResult) -> list[Delta]:
    """Return the changes of all states but the first; with an interval it is the estimate that belongs to it."""
    rows = result.comparison
    several = len({row.case for row in rows}) > 1
    effects = {(row.state, row.case, row.metric): row.effect for row in result.effects}
    found: list[Delta] = []
    for row in rows:
        if row.state == rows[0].state:
            continue
        plain = (row.delta_tpot_pct_vs_first, row.delta_output_throughput_pct_vs_first)
        for (metric, name), pct in zip(SHOWN, plain, strict=True):
            effect = effects.get((row.state, row.case, metric))
            case = row.case if several else ""
            if effect is not None and effect.low_pct is not None and effect.high_pct is not None:
                found.append(Delta(row.state, name, effect.pct, case, (effect.low_pct, effect.high_pct)))
            else:
                found.append(Delta(row.state, name, pct, case))
    return found


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


def _tables(result: BenchCompareResult, launches: Sequence[LaunchRecord]) -> list[Table]:
    tables: list[Table] = []
    if result.judgements:
        tables.append(judgement_table(result.judgements))
    if any(row.effect.known for row in result.effects):
        tables.append(effect_table(result.effects))
    if len({record.number for record in launches}) > len({record.label for record in launches}):
        tables.append(launch_table(launches))
    return tables


def judgement_table(rows: Sequence[JudgementRow]) -> Table:
    """Return what the policy says of every metric and gate."""
    names = ("State", "Case", "Metric or gate", "Verdict", "Reason")
    cells = [[row.state, row.case, row.name, row.verdict, row.reason] for row in rows]
    return Table([Column(name) for name in names], cells, "Verdict by metric and gate")


def effect_table(rows: Sequence[EffectRow]) -> Table:
    """Return the change of every metric with its interval."""
    columns = [Column("State"), Column("Case"), Column("Metric")]
    signed = ("Change", "from", "to", "Drift")
    columns += [Column(name, unit="%", format="signed", digits=1) for name in signed]
    columns += [Column(name, unit="%", format="number", digits=1) for name in ("Launch spread", "Could be seen")]
    columns += [Column("Advised rounds", format="number", digits=0), Column("Outliers (launch)")]
    cells: list[list[Cell]] = []
    for row in rows:
        effect = row.effect
        figures = [effect.pct, effect.low_pct, effect.high_pct, effect.drift_pct, effect.launch_cv_pct]
        outliers = ", ".join(map(str, effect.outliers)) or "none"
        tail = [effect.detectable_pct, effect.advised_rounds, outliers]
        cells.append([row.state, row.case, row.metric, *figures, *tail])
    return Table(columns, cells, "Effects with 95 % intervals")


def launch_table(launches: Sequence[LaunchRecord]) -> Table:
    """Return one row a launch and case with the main figures."""
    columns = [Column("Launch", format="number", digits=0), Column("State"), Column("Case"), Column("Started")]
    columns += [Column("Contaminated"), Column("Ready", unit="s", format="number", digits=1)]
    columns += [Column(name, unit=unit, format="number", digits=digits) for _metric, name, unit, digits in MAIN]
    cells: list[list[Cell]] = []
    for record in launches:
        head: list[Cell] = [record.number, record.label, record.case, record.started_at[11:19], _contaminated(record)]
        own = means([record])
        figures = [own.get(metric) for metric, *_ in MAIN]
        cells.append([*head, record.launch.get("ready_s"), *figures])
    return Table(columns, cells, "Launches")


def csv_table(launches: Sequence[LaunchRecord]) -> Table:
    """Return one row a launch and case with every metric that any of them has: what ``report.csv`` holds."""
    metrics = list(dict.fromkeys(name for record in launches for run in record.counted for name in run))
    names = ("launch", "round", "state", "case", "ref", "commit", "started_at", "contaminated", "ready_s", "iterations")
    cells: list[list[Cell]] = []
    for record in launches:
        state = record.state
        head: list[Cell] = [record.number, record.round, state.label, record.case, state.ref, state.sha]
        seen: list[Cell] = [record.started_at, _contaminated(record), record.launch.get("ready_s"), len(record.counted)]
        own = means([record])
        cells.append([*head, *seen, *(own.get(metric) for metric in metrics)])
    return Table([Column(name) for name in (*names, *metrics)], cells)


def _contaminated(record: LaunchRecord) -> str:
    return {True: "yes", False: "no", None: "unknown"}[record.contaminated]


def _facts(result: BenchCompareResult, launches: Sequence[LaunchRecord], endpoint: Endpoint) -> list[Fact]:
    hello = endpoint.hello
    facts = [
        Fact("Task", result.task_id),
        Fact("Model", result.model),
        Fact("Endpoint", endpoint.config.address),
        Fact("Host", f"{hello.get('hostname')} ({hello.get('platform')}, boot {str(hello.get('boot_id'))[:8]})"),
        Fact("NPUs", ", ".join(str(device["logic"]) for device in result.devices) or "none"),
        Fact("vLLM of the client", _distinct(record.launch.get("client_version") for record in launches)),
        Fact("Executions", _distinct(record.launch.get("execution_id") for record in launches)),
        Fact("Native inputs", _distinct((record.native or {}).get("sha256") for record in launches)),
        Fact("Compiled graphs found", _distinct(_compiled(record) for record in launches)),
    ]
    facts += _versions(result.receipt)
    more = {
        "vLLM": f"{result.vllm['ref']} = {result.vllm['sha']}" if result.vllm else None,
        "Patch (sha256)": result.patch_sha256,
        "Fixed requests": _text(result.fixed_dataset or ""),
        "Resumed from": result.resumed_from,
        "Nightly": f"{result.nightly.get('name')} {result.nightly.get('case')}" if result.nightly else None,
        "Preset": result.preset,
    }
    return [*facts, *(Fact(name, value) for name, value in more.items() if value)]


def _versions(receipt: Mapping[str, Any]) -> list[Fact]:
    """Return what the receipt says about both sides: versions, and commits of trees."""
    there: Mapping[str, Any] = receipt.get("endpoint") or {}
    named = {f"CANN {name}": found for name, found in (there.get("cann") or {}).items()}
    named |= {"Python": there.get("python"), **(there.get("packages") or {})}
    facts = [Fact(name, str(found["version"])) for name, found in named.items() if found and found.get("version")]
    trees = {f"{name} on the endpoint": tree for name, tree in (there.get("repos") or {}).items()}
    trees |= {f"{name} here": tree for name, tree in (receipt.get("sources") or {}).items()}
    for name, tree in trees.items():
        if tree and tree.get("commit"):
            changed = ", with uncommitted changes" if tree.get("dirty") else ""
            facts.append(Fact(name, f"{tree['commit'][:12]}{changed} ({tree.get('path')}), before the run"))
    return facts


def _compiled(record: LaunchRecord) -> Any:
    return ((record.caches or {}).get("compile") or {}).get("entries")


def _distinct(values: Any) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values if value is not None)) or "unknown"


def _commands(result: BenchCompareResult, launches: Sequence[LaunchRecord]) -> list[list[str]]:
    """Return the command that repeats the comparison, then those of the first launch: service, and client by case.

    The commands of the other launches differ in the port and the names of files.
    """
    first = [record for record in launches if record.number == launches[0].number]
    return [result.repeat, first[0].launch["command"], *(record.launch["bench_command"] for record in first)]


def _text(value: object) -> str:
    """Return a setting as a person would type it."""
    if isinstance(value, list):
        return shlex.join(map(str, value))
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items())
    return str(value)

"""The tables of an answer about a comparison, for a person at a terminal."""

from collections.abc import Sequence
from typing import Any

from vaws_mcp.comparison.history import history_table
from vaws_mcp.comparison.history_models import HistoryRow
from vaws_mcp.comparison.models import ComparisonRow, EffectRow, JudgementRow
from vaws_mcp.comparison.view import comparison_table, effect_table, judgement_table
from vaws_mcp.render.tables import Table

EFFECTS = ("State", "Case", "Metric", "Change", "from", "to", "Advised rounds")  # fits 80 columns; a report has all

HISTORY = ("Run", "State", "Case", "Commit", "Verdict")


def tables_of(answer: dict[str, Any]) -> dict[str, Table]:
    """Return the tables that take the place of fields of the answer."""
    tables: dict[str, Table] = {}
    if rows := answer.get("comparison"):
        tables["comparison"] = comparison_table([ComparisonRow.model_validate(row) for row in rows])
    if rows := answer.get("effects"):
        tables["effects"] = _narrow(effect_table([EffectRow.model_validate(row) for row in rows]), EFFECTS)
    if rows := answer.get("judgements"):
        tables["judgements"] = judgement_table([JudgementRow.model_validate(row) for row in rows])
    if (rows := answer.get("history")) and answer.get("metric"):
        whole = history_table([HistoryRow.model_validate(row) for row in rows], answer["metric"])
        tables["history"] = _narrow(whole, (*HISTORY, answer["metric"]))
    return tables


def _narrow(table: Table, titles: Sequence[str]) -> Table:
    kept = [number for number, column in enumerate(table.columns) if column.title in titles]
    return Table(
        [table.columns[number] for number in kept],
        [[row[number] for number in kept] for row in table.rows],
        table.title,
    )

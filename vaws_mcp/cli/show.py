"""A readable form of any answer, for a terminal."""

import shlex
import sys
from typing import TYPE_CHECKING, Any

from vaws_mcp.core.models import RESERVED_KEYS
from vaws_mcp.core.sanitize import one_line, plain_text

if TYPE_CHECKING:
    from vaws_mcp.render.tables import Table

JSON_ONLY = frozenset({"receipt", "config_origin", "result_paths", "aggregated"})  # long; also in files and reports
MOST_COLUMNS = 9  # with more, a table has a few characters left for each
COMMANDS = frozenset({"command", "repeat"})
NARROWED = {"executions": ("submitted_at", "resources_released"), "runs": ("created_at",), "checks": ("status",)}


def show(answer: dict[str, Any]) -> None:
    """Print the summary, lists as tables, the other fields as lines, then warnings, files and the hint.

    Lines are never broken, so that a path can be copied. Nested details of a list, and what only a machine reads, are
    left to ``--json``.
    """
    from rich.console import Console

    if answer.get("schema") == "vaws.npu_probe.v1" and answer.get("devices"):
        from vaws_mcp.npu.view import for_people

        answer = for_people(answer)
    if answer.get("schema") == "vaws.nightly_show.v1" and answer.get("cases"):
        from vaws_mcp.bench.nightly_view import for_people as nightly_for_people

        answer = nightly_for_people(answer)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    mark = {"success": "✓", "failed": "✗"}.get(str(answer.get("outcome")), "•")
    if answer.get("status") == "non_zero_exit":
        mark = "•"
    simulated = "  [simulated]" if answer.get("simulated") else ""
    console.print(f"{mark} {one_line(str(answer.get('summary') or answer.get('status')), 400)}{simulated}")
    tables = _tables(answer)
    for name, value in answer.items():
        if name in tables:
            _print(tables[name])
        elif name not in RESERVED_KEYS:
            _show_field(console, name, value)
    for warning in answer.get("warnings", []):
        console.print(f"! {plain_text(warning)}")
    error = answer.get("error")
    if error:
        console.print(f"  layer {error['layer']}, code {error['code']}")
    hint = answer.get("hint") or (error or {}).get("hint")
    if hint:
        console.print(f"→ {plain_text(hint)}")
    for name, path in answer.get("refs", {}).items():
        console.print(f"  {name}: {path}")
    sys.stdout.flush()


def _tables(answer: dict[str, Any]) -> "dict[str, Table]":
    """Return the tables of a comparison by field: the same that its report has."""
    named = {name: answer.get(name) for name in ("comparison", "effects", "judgements", "history")}
    if not any(named.values()):
        return {}
    from vaws_mcp.comparison.people import tables_of

    return tables_of(answer)


def _print(table: "Table") -> None:
    from vaws_mcp.render.terminal import print_table

    print_table(table, sys.stdout)


def _show_field(console: Any, name: str, value: Any) -> None:
    if value is None or value in ([], {}) or name in JSON_ONLY:
        return
    if name == "result" and isinstance(value, dict):
        show(value)
    elif name == "plan" and isinstance(value, dict):
        for key, item in value.items():
            _show_field(console, key, item)
    elif name in COMMANDS and isinstance(value, list):
        console.print(f"{name}: {plain_text(shlex.join(map(str, value)))}")
    elif isinstance(value, list) and all(isinstance(row, dict) for row in value):
        _show_table(console, name, value)
    elif isinstance(value, str) and "\n" in value:
        console.print(f"{name}:")
        console.print(plain_text(value))
    elif text := _short(value):
        console.print(f"{name}: {plain_text(text)}")


def _show_table(console: Any, name: str, rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    keys = dict.fromkeys(key for row in rows for key in row)
    columns = [
        key
        for key in keys
        if key not in NARROWED.get(name, ())
        and not any(isinstance(row.get(key), dict | list) for row in rows)
        and any(row.get(key) is not None for row in rows)
    ]
    if len(columns) > MOST_COLUMNS:
        for row in rows:
            console.print(f"{name}:")
            for column in columns:
                if text := _short(row.get(column)):
                    console.print(f"  {column}: {one_line(text)}")
        return
    table = Table(title=name, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column.endswith("_id"))  # ids are there to be copied
    for row in rows:
        table.add_row(*(one_line(_short(row.get(column))) for column in columns))
    console.print(table, soft_wrap=False)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        shown = {
            key: f"({text})" if isinstance(item, dict) else text
            for key, item in value.items()
            if (text := _short(item))
        }
        return ", ".join(f"{key}={text}" for key, text in shown.items())
    if isinstance(value, list):
        return ", ".join(f"({_short(item)})" if isinstance(item, dict) else _short(item) for item in value)
    return "" if value is None else str(value)

"""A readable form of any answer, for a terminal."""

import sys
from typing import Any

from vaws_mcp.core.models import RESERVED_KEYS
from vaws_mcp.core.sanitize import one_line, plain_text


def show(answer: dict[str, Any]) -> None:
    """Print the summary, lists as tables, the other fields as lines, then warnings, files and the hint.

    Lines are never broken, so that a path can be copied. Nested details of a list are left to ``--json``.
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
    for name, value in answer.items():
        if name not in RESERVED_KEYS:
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


def _show_field(console: Any, name: str, value: Any) -> None:
    if value is None or value in ([], {}):
        return
    if name == "comparison":
        _show_comparison(value)
    elif name == "result" and isinstance(value, dict):
        show(value)
    elif isinstance(value, list) and all(isinstance(row, dict) for row in value):
        _show_table(console, name, value)
    elif isinstance(value, str) and "\n" in value:
        console.print(f"{name}:")
        console.print(plain_text(value))
    else:
        console.print(f"{name}: {plain_text(_short(value))}")


def _show_comparison(rows: list[dict[str, Any]]) -> None:
    from vaws_mcp.comparison.models import ComparisonRow
    from vaws_mcp.comparison.view import comparison_table
    from vaws_mcp.render.terminal import print_table

    print_table(comparison_table([ComparisonRow(**row) for row in rows]), sys.stdout)


def _show_table(console: Any, name: str, rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    keys = dict.fromkeys(key for row in rows for key in row)
    columns = [key for key in keys if not any(isinstance(row.get(key), dict | list) for row in rows)]
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
        return ", ".join(f"{key}={_short(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_short(item) for item in value)
    return "" if value is None else str(value)

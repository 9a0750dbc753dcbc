"""A readable form of any answer, for a terminal."""

import sys
from typing import Any

from vaws_mcp.core.models import RESERVED_KEYS
from vaws_mcp.core.operation import Operation
from vaws_mcp.core.sanitize import one_line, plain_text

_HIDDEN = RESERVED_KEYS - {"summary"}


def show(operation: Operation, answer: dict[str, Any]) -> None:  # noqa: ARG001 - views of single operations use it
    """Print the summary, lists as tables, the other fields as lines, then warnings, files and the hint."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    mark = {"success": "✓", "failed": "✗"}.get(str(answer.get("outcome")), "•")
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
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        _show_table(console, name, value)
    elif isinstance(value, str) and "\n" in value:
        console.print(f"{name}:")
        console.print(plain_text(value))
    else:
        console.print(f"{name}: {plain_text(_short(value))}")


def _show_table(console: Any, name: str, rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*columns, title=name, title_justify="left")
    for row in rows:
        table.add_row(*(one_line(_short(row.get(column))) for column in columns))
    console.print(table)


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={_short(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_short(item) for item in value)
    return "" if value is None else str(value)

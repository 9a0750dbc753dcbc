"""Tables as CSV, with full precision and without anything a spreadsheet would run."""

import csv
import io

from vaws_mcp.render.plain import line
from vaws_mcp.render.tables import Cell, Table

_FORMULA = ("=", "+", "-", "@")


def table_csv(table: Table) -> str:
    """Return a table as CSV: header with units, numbers unrounded, missing values empty."""
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow([_value(column.heading) for column in table.columns])
    writer.writerows([_value(cell) for cell in row] for row in table.rows)
    return target.getvalue()


def _value(cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = line(cell)
    # A text that begins like a formula is marked as text, as spreadsheets do it themselves.
    return f"'{text}" if text.startswith(_FORMULA) else text

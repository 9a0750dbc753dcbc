"""The one table model that every output format takes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from vaws_mcp.render.plain import line

Cell = str | int | float | None
Format = Literal["text", "number", "signed", "percent", "signed_percent"]

MISSING = "–"  # noqa: RUF001 - the en dash is the usual mark for a value that is not there


@dataclass(frozen=True)
class Column:
    """A column. Numbers are shown with ``digits`` decimals and aligned right; the unit belongs to the header only."""

    title: str
    unit: str | None = None
    format: Format = "text"
    digits: int = 2

    @property
    def numeric(self) -> bool:
        """Tell whether the column holds numbers, which are aligned right."""
        return self.format != "text"

    @property
    def heading(self) -> str:
        """Title and unit in one line, as in ``Mean TPOT (ms)``."""
        return line(f"{self.title} ({self.unit})" if self.unit else self.title)


@dataclass(frozen=True)
class Table:
    """Columns and rows of equal width. None is a missing value and never shown as 0."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]] = field(default_factory=tuple[Sequence[Cell], ...])
    title: str | None = None

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {number} has {len(row)} cells, the table has {len(self.columns)} columns")

    def texts(self) -> list[list[str]]:
        """Return every cell as shown, still without the escaping of a format."""
        return [[cell_text(column, cell) for column, cell in zip(self.columns, row, strict=True)] for row in self.rows]


def cell_text(column: Column, cell: Cell) -> str:
    """Return a cell as one safe line, in the column's format."""
    if cell is None:
        return MISSING
    if isinstance(cell, str) or not column.numeric:
        return line(str(cell))
    sign = "+" if column.format.startswith("signed") else ""
    share = " %" if column.format.endswith("percent") else ""
    return f"{cell:{sign}.{column.digits}f}{share}"

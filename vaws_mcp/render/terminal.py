"""Tables for people at a terminal."""

from typing import TextIO

from vaws_mcp.render.plain import line
from vaws_mcp.render.tables import Table


def print_table(table: Table, stream: TextIO, *, width: int | None = None) -> None:
    """Print a table; colours and box lines only where the stream can show them."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    title = Text(line(table.title)) if table.title else None
    grid = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        # Text objects keep square brackets in labels from being read as markup.
        grid.add_column(Text(column.heading), justify="right" if column.numeric else "left", overflow="fold")
    for row in table.texts():
        grid.add_row(*(Text(cell) for cell in row))
    Console(file=stream, width=width, highlight=False, emoji=False).print(grid)

"""Tables for people at a terminal."""

from typing import TextIO

from vaws_mcp.render.plain import line
from vaws_mcp.render.tables import Table

UNBROKEN = 18  # characters; longer cells give way first
GAP = 3  # characters between two columns


def print_table(table: Table, stream: TextIO, *, width: int | None = None) -> None:
    """Print a table; colours and box lines only where the stream can show them."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    title = Text(line(table.title)) if table.title else None
    grid = RichTable(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    texts = table.texts()
    console = Console(file=stream, width=width, highlight=False, emoji=False)
    longest = [max((len(row[number]) for row in texts), default=0) for number in range(len(table.columns))]
    least = [min(cells, UNBROKEN) for cells in longest]
    if sum(least) + GAP * len(least) > console.width:
        least = [1] * len(least)  # a table that is too wide would lose its last columns
    for number, column in enumerate(table.columns):
        # Text objects keep square brackets in labels from being read as markup. Short cells are not broken.
        side = "right" if column.numeric else "left"
        grid.add_column(Text(column.heading), justify=side, overflow="fold", min_width=least[number])
    for row in texts:
        grid.add_row(*(Text(cell) for cell in row))
    console.print(grid)

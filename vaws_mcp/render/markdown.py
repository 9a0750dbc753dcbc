"""Tables and text as GitHub-flavoured Markdown in which untrusted text stays text."""

import re

from vaws_mcp.render.plain import block, line
from vaws_mcp.render.tables import Table

_SPECIAL = re.compile(r"([\\`*\[\]|~#])|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# A dollar sign would begin a formula on GitHub, also behind a backslash.
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})
_BACKTICKS = re.compile(r"`+")


def escape(text: str) -> str:
    """Return untrusted text as one line of Markdown that shows exactly these characters."""
    return _SPECIAL.sub(r"\\\g<0>", line(text)).translate(_ENTITIES)


def code_block(text: str, language: str = "") -> str:
    """Return text as a fenced block whose fence is longer than any run of backticks inside."""
    body = block(text)
    longest = max((len(run) for run in _BACKTICKS.findall(body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def table_markdown(table: Table) -> str:
    """Return a table as Markdown; numeric columns are aligned right."""
    header = [escape(column.heading) for column in table.columns]
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    body = [[escape(text) for text in row] for row in table.texts()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, rule, *body])

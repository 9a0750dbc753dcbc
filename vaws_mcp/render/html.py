"""Self-contained HTML pages: no script, no network, everything escaped that is not a figure of ours."""

import re
from typing import Any

from vaws_mcp.render.figures import Figure
from vaws_mcp.render.plain import block, line

_SIGN = re.compile(r"(?:^|(?<=[ (]))-(?=[\d.]+(?: %| to |$))")


def page(template: str, **context: Any) -> str:
    """Fill a template of this package; every value is escaped by the template engine.

    Raises: jinja2.UndefinedError when the template asks for something that the context does not hold.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("vaws_mcp.render"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(line=line, block=block, minus=_minus, drawing=_drawing)
    return environment.get_template(template).render(context)


def _minus(text: str) -> str:
    """Show the sign of a number, or of a percentage inside a sentence, as a minus, which is as wide as a plus."""
    return _SIGN.sub("\N{MINUS SIGN}", text)


def _drawing(figure: Figure) -> Any:
    from markupsafe import Markup

    return Markup(figure.svg)  # noqa: S704 - drawn by render.figures, which escapes labels

"""A path as Python has it, to and from the text that stands for it in requests and answers; see ``names``."""

from __future__ import annotations

from ..params import Params
from . import names


def _raw(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def is_text(path: str) -> bool:
    """Tell whether a path is UTF-8, so that it is shown as it is."""
    return names.is_text(_raw(path))


def shown(path: str) -> str:
    """Return a path as valid text, with escapes when it is no UTF-8."""
    return path if is_text(path) else names.shown([_raw(path)], escaped=True)[0]


def path_of(params: Params) -> str:
    """Return the parameter ``path``, with its escapes undone when the parameter ``escaped`` says that it has some."""
    path = params.text("path")
    return names.given(path, escaped=True).decode("utf-8", "surrogateescape") if params.flag("escaped") else path

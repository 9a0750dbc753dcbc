"""Lines of text as they come from terminals, logs and pastes."""

from __future__ import annotations

import re
from typing import List, Optional

# Control sequences, operating system commands, and the short forms.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])")
_ENDINGS = re.compile(r"\r*\n|\r+")
_ABSENT = frozenset(("", "-", "--", "na", "n/a", "none"))


def lines_of(text: str) -> List[str]:
    """Return the lines without terminal escapes, whatever ends them, and without blanks at their ends."""
    return [line.replace("\x00", "").rstrip() for line in _ENDINGS.split(_ESCAPES.sub("", text).lstrip("\ufeff"))]


def is_gap(line: str) -> bool:
    """Tell whether a line stands for others that somebody left out, such as ``...``."""
    return line.strip(" \t|[(<-").startswith(("...", "\u2026"))


def present(cell: str) -> Optional[str]:
    """Return the text of a cell, or None for the words that npu-smi prints in place of a value."""
    cell = cell.strip()
    return None if cell.lower() in _ABSENT else cell


def integer(cell: str) -> Optional[int]:
    """Return a plain number that is not negative, or None."""
    cell = cell.strip()
    return int(cell) if cell.isascii() and cell.isdigit() and len(cell) <= 18 else None


def decimal(cell: str) -> Optional[float]:
    """Return a plain decimal number, or None."""
    return float(cell) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", cell.strip(), re.ASCII) else None

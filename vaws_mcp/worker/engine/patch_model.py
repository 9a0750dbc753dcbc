"""What a patch says, whichever of the two forms it is written in."""

from __future__ import annotations

from typing import List, NamedTuple, NoReturn, Optional

from ..refusal import Refusal


class Hunk(NamedTuple):
    """A piece of a file and what it becomes, both with the lines around the change.

    ``number`` counts the hunks of a file from 1. ``line`` is where ``old`` begins, counted from 0, or None when the
    form does not say; then ``anchors`` are lines that stand somewhere before it, and ``at_end`` ties it to the file's
    end. ``patch_line`` is where the hunk stands in the patch, counted from 1.
    """

    number: int
    old: bytes
    new: bytes
    line: Optional[int]
    patch_line: int
    anchors: List[bytes] = []  # noqa: RUF012 - a default that nobody changes
    at_end: bool = False


class FilePatch(NamedTuple):
    """What a patch does to one file.

    ``action`` is add, delete, update, move or copy; ``source`` is where a moved or copied file comes from. ``body`` are
    the contents of an added file; for a deleted one, what must be left of it when its hunks are applied. ``other`` is
    the name on the old side when a plain diff has two.
    """

    action: str
    path: str
    hunks: List[Hunk]
    source: Optional[str] = None
    executable: Optional[bool] = None
    body: Optional[bytes] = None
    other: Optional[str] = None


def malformed(line: int, problem: str) -> NoReturn:
    """Refuse a patch that cannot be read. ``line`` counts its lines from 1.

    Raises: Refusal ``bad_patch``.
    """
    hint = "Give a unified diff, or the form that begins with '*** Begin Patch'."
    raise Refusal("bad_patch", f"line {line} of the patch: {problem}", "caller", hint=hint)

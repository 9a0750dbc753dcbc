"""Reads the patch form that begins with ``*** Begin Patch``. Its hunks have no line numbers."""

from __future__ import annotations

import re
from typing import List, Optional

from .patch_model import FilePatch, Hunk, malformed
from .patch_names import checked, text_of
from .text import split_lines

BEGIN, END = b"*** Begin Patch", b"*** End Patch"
_ADD, _DELETE, _UPDATE, _MOVE = b"*** Add File: ", b"*** Delete File: ", b"*** Update File: ", b"*** Move to: "
_END_OF_FILE = b"*** End of File"
_NUMBERS = re.compile(rb"@@ -\d+(,\d+)? \+\d+(,\d+)? @@")


def is_begin_form(patch: bytes) -> bool:
    """Tell whether a patch is written in this form."""
    return patch.lstrip().startswith(BEGIN)


class _Draft:
    """A hunk while its lines are read."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.anchors: List[bytes] = []
        self.old: List[bytes] = []
        self.new: List[bytes] = []
        self.at_end = False

    @property
    def empty(self) -> bool:
        """Whether it has no lines yet."""
        return not self.old and not self.new


class _Reader:
    """The lines between the first and the last one, without their ends."""

    def __init__(self, patch: bytes) -> None:
        self.lines = [line.rstrip(b"\n") for line in split_lines(patch)]
        self.at = 0
        while self.lines and not self.lines[-1].strip():
            self.lines.pop()
        while not self.lines[self.at].strip():
            self.at += 1
        if self.lines[self.at].strip() != BEGIN:
            malformed(self.at + 1, f"this line should be {text_of(BEGIN)}")
        if self.lines[-1].strip() != END:
            malformed(len(self.lines), f"the last line should be {text_of(END)}")
        self.lines.pop()
        self.at += 1

    @property
    def number(self) -> int:
        """Number of the present line, counted from 1."""
        return self.at + 1

    @property
    def in_file(self) -> bool:
        """Whether the present line belongs to the file that was begun."""
        return self.at < len(self.lines) and not self.lines[self.at].startswith((_ADD, _DELETE, _UPDATE, END, BEGIN))


def read_begin(patch: bytes) -> List[FilePatch]:
    """Return what a patch in this form says about each file.

    Raises: Refusal ``bad_patch`` that names the line.
    """
    reader = _Reader(patch)
    files: List[FilePatch] = []
    while reader.at < len(reader.lines):
        line, number = reader.lines[reader.at], reader.number
        reader.at += 1
        if line.startswith(_ADD):
            files.append(_added(reader, _name(line, _ADD, number)))
        elif line.startswith(_DELETE):
            files.append(FilePatch("delete", _name(line, _DELETE, number), []))
        elif line.startswith(_UPDATE):
            files.append(_updated(reader, _name(line, _UPDATE, number)))
        elif line.strip():
            malformed(number, "this should be *** Add File:, *** Delete File: or *** Update File:")
    if not files:
        malformed(reader.number, "no file is named")
    return files


def _name(line: bytes, key: bytes, number: int) -> str:
    return checked(text_of(line[len(key) :]).strip(), number)


def _added(reader: _Reader, path: str) -> FilePatch:
    body: List[bytes] = []
    while reader.in_file:
        line = reader.lines[reader.at]
        if not line.startswith(b"+"):
            if not line.strip() and not any(rest.strip() for rest in _rest(reader)):
                reader.at += 1
                continue
            malformed(reader.number, "each line of an added file begins with +")
        body.append(line[1:] + b"\n")
        reader.at += 1
    return FilePatch("add", path, [], body=b"".join(body))


def _rest(reader: _Reader) -> List[bytes]:
    """Return the lines that are left of the present file."""
    end = reader.at
    while end < len(reader.lines) and not reader.lines[end].startswith((_ADD, _DELETE, _UPDATE)):
        end += 1
    return reader.lines[reader.at : end]


def _updated(reader: _Reader, path: str) -> FilePatch:
    target: Optional[str] = None
    if reader.in_file and reader.lines[reader.at].startswith(_MOVE):
        target = _name(reader.lines[reader.at], _MOVE, reader.number)
        reader.at += 1
    drafts: List[_Draft] = []
    while reader.in_file:
        _take_line(reader, drafts)
        reader.at += 1
    hunks = [_finished(draft, number) for number, draft in enumerate(drafts, 1)]
    if target is None:
        if not hunks:
            malformed(reader.number, f"{path} is to be updated, but there is no hunk")
        return FilePatch("update", path, hunks)
    return FilePatch("move", target, hunks, source=path)


def _take_line(reader: _Reader, drafts: List[_Draft]) -> None:
    line = reader.lines[reader.at]
    if line.startswith(b"@@"):
        if not drafts or not drafts[-1].empty or drafts[-1].at_end:
            drafts.append(_Draft(reader.number))
        anchor = b"" if _NUMBERS.match(line) else line[2:].strip()
        if anchor:
            drafts[-1].anchors.append(anchor)
        return
    if line == _END_OF_FILE:
        if not drafts or drafts[-1].empty:
            malformed(reader.number, "there are no lines before the end of the file")
        drafts[-1].at_end = True
        return
    if not drafts or drafts[-1].at_end:
        if not line.strip() and (drafts or not any(rest.strip() for rest in _rest(reader))):
            return
        drafts.append(_Draft(reader.number))
    mark, text = line[:1] or b" ", line[1:] + b"\n"
    if mark not in (b" ", b"+", b"-"):
        malformed(reader.number, "each line of a hunk begins with a space, + or -")
    if mark in (b" ", b"-"):
        drafts[-1].old.append(text)
    if mark in (b" ", b"+"):
        drafts[-1].new.append(text)


def _finished(draft: _Draft, number: int) -> Hunk:
    if draft.empty:
        malformed(draft.line, "this hunk has no lines")
    old, new = b"".join(draft.old), b"".join(draft.new)
    if old == new:
        malformed(draft.line, "this hunk changes nothing")
    return Hunk(number, old, new, None, draft.line, draft.anchors, draft.at_end)

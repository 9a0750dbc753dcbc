"""Reads unified diffs, plain ones and those of git. What a header counts must be there; nothing is guessed."""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from .patch_model import FilePatch, Hunk, malformed
from .patch_names import NO_FILE, checked, git_names, has_prefixes, header_name
from .text import split_lines

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_EXTENDED = (
    b"old mode ",
    b"new mode ",
    b"new file mode ",
    b"deleted file mode ",
    b"rename from ",
    b"rename to ",
    b"copy from ",
    b"copy to ",
    b"similarity index ",
    b"dissimilarity index ",
    b"index ",
)
_BINARY = (b"GIT binary patch", b"Binary files ")


class _Reader:
    """The lines of a patch and where reading has got to."""

    def __init__(self, lines: List[bytes]) -> None:
        self.lines = lines
        self.at = 0

    @property
    def number(self) -> int:
        """Number of the present line, counted from 1."""
        return self.at + 1

    def line(self, ahead: int = 0) -> bytes:
        """Return a line without its end; empty behind the last one."""
        at = self.at + ahead
        return self.lines[at].rstrip(b"\n") if at < len(self.lines) else b""

    @property
    def ended(self) -> bool:
        """Whether everything was read."""
        return self.at >= len(self.lines)


def read_unified(patch: bytes) -> List[FilePatch]:
    """Return what a unified diff says about each file. Text around the diffs is skipped.

    Raises: Refusal ``bad_patch`` that names the line.
    """
    reader = _Reader(split_lines(patch))
    files: List[FilePatch] = []
    while not reader.ended:
        line = reader.line()
        if line.startswith(b"diff --git "):
            files.append(_git_file(reader))
        elif _is_plain_header(reader):
            files.append(_plain_file(reader))
        elif _HUNK.match(line):
            malformed(reader.number, "a hunk without the --- and +++ lines that name its file")
        elif line.startswith(_BINARY):
            malformed(reader.number, "binary patches are not supported")
        else:
            reader.at += 1
    if not files:
        malformed(1, "there is no file header, such as --- a/name and +++ b/name")
    return files


def _is_plain_header(reader: _Reader) -> bool:
    return reader.line().startswith(b"--- ") and reader.line(1).startswith(b"+++ ")


def _git_file(reader: _Reader) -> FilePatch:
    begin = reader.number
    names = git_names(reader.line()[len(b"diff --git ") :], begin)
    reader.at += 1
    said: Dict[bytes, bytes] = {}
    while not reader.ended:
        line = reader.line()
        key = next((key for key in _EXTENDED if line.startswith(key)), None)
        if key is None:
            break
        said[key.rstrip()] = line[len(key) :]
        reader.at += 1
    if reader.line().startswith(_BINARY):
        malformed(reader.number, "binary patches are not supported")
    hunks: List[Hunk] = []
    if _is_plain_header(reader) and _agrees(reader, names, said):
        old, new = _both_names(reader)
        hunks = _hunks(reader)
        names = (old, new) if names is None else names
        if NO_FILE in (old, new):
            said.setdefault(b"new file mode" if old == NO_FILE else b"deleted file mode", b"100644")
    elif reader.line().startswith(b"@@ "):
        malformed(reader.number, "a hunk without the --- and +++ lines that name its file")
    return _from_git(said, names, hunks, begin)


def _agrees(reader: _Reader, names: Optional[Tuple[str, str]], said: Dict[bytes, bytes]) -> bool:
    """Tell whether the --- and +++ lines belong to the header before them, and not to a plain diff that follows."""
    old, new = _names_ahead(reader)
    for word in (b"rename", b"copy"):
        if word + b" from" in said and word + b" to" in said:
            ends = tuple(header_name(said[word + end], reader.number) for end in (b" from", b" to"))
            return (old, new) == ends or _stripped(old, new) == ends
    return names is None or (old in (NO_FILE, names[0]) and new in (NO_FILE, names[1]))


def _from_git(said: Dict[bytes, bytes], names: Optional[Tuple[str, str]], hunks: List[Hunk], line: int) -> FilePatch:
    executable = _executable(said, line)
    for action, word in (("move", b"rename"), ("copy", b"copy")):
        if word + b" to" in said and word + b" from" in said:
            source = checked(header_name(said[word + b" from"], line), line)
            path = checked(header_name(said[word + b" to"], line), line)
            return FilePatch(action, path, hunks, source, executable)
    if names is None:
        malformed(line, "the names in this header cannot be told apart")
    old, new = _stripped(*names)
    if b"new file mode" in said:
        return _added(checked(new if new != NO_FILE else old, line), hunks, executable, line)
    if b"deleted file mode" in said:
        return FilePatch("delete", checked(old if old != NO_FILE else new, line), hunks, body=b"")
    if old != new:
        malformed(line, f"two names, {old!r} and {new!r}, without rename from and rename to")
    return FilePatch("update", checked(new, line), hunks, executable=executable)


def _executable(said: Dict[bytes, bytes], line: int) -> Optional[bool]:
    for key in (b"new mode", b"new file mode", b"deleted file mode"):
        mode = said.get(key)
        if mode is None:
            continue
        if not re.fullmatch(rb"100[0-7]{3}", mode):
            kind = {b"120000": "symbolic links", b"160000": "submodules"}.get(mode, "files of mode " + repr(mode))
            malformed(line, f"{kind} are not supported")
        return bool(int(mode, 8) & 0o100)
    return None


def _plain_file(reader: _Reader) -> FilePatch:
    begin = reader.number
    old, new = _stripped(*_both_names(reader))
    hunks = _hunks(reader)
    if not hunks:
        malformed(reader.number, "there is no hunk after the --- and +++ lines")
    if old == NO_FILE:
        return _added(checked(new, begin), hunks, None, begin)
    if new == NO_FILE:
        return FilePatch("delete", checked(old, begin), hunks, body=b"")
    other = checked(old, begin) if old != new else None
    return FilePatch("update", checked(new, begin), hunks, other=other)


def _names_ahead(reader: _Reader) -> Tuple[str, str]:
    names = [header_name(reader.line(ahead)[4:], reader.number + ahead) for ahead in (0, 1)]
    return names[0], names[1]


def _both_names(reader: _Reader) -> Tuple[str, str]:
    names = _names_ahead(reader)
    reader.at += 2
    return names


def _stripped(old: str, new: str) -> Tuple[str, str]:
    if not has_prefixes(old, new):
        return old, new
    return (old if old == NO_FILE else old[2:]), (new if new == NO_FILE else new[2:])


def _added(path: str, hunks: List[Hunk], executable: Optional[bool], line: int) -> FilePatch:
    if len(hunks) > 1 or (hunks and hunks[0].old):
        malformed(line, f"{path} is a new file, but its hunks have old lines")
    body = hunks[0].new if hunks else b""
    return FilePatch("add", path, [], executable=executable, body=body)


def _hunks(reader: _Reader) -> List[Hunk]:
    found: List[Hunk] = []
    while not reader.ended:
        line = reader.line()
        header = _HUNK.match(line)
        if header is not None:
            found.append(_hunk(reader, header, len(found) + 1))
        elif line.startswith(b"@@"):
            malformed(reader.number, "this hunk header cannot be read; it should be @@ -line,count +line,count @@")
        elif found and line[:1] in (b" ", b"+", b"-") and not _may_follow(reader):
            malformed(reader.number, f"more lines than the header of hunk {len(found)} counts")
        else:
            break
    return found


def _may_follow(reader: _Reader) -> bool:
    """Tell whether a line behind a complete hunk belongs to something else: the next file, or a mail's signature."""
    return _is_plain_header(reader) or reader.line() in (b"-- ", b"--")


def _hunk(reader: _Reader, header: re.Match[bytes], number: int) -> Hunk:
    begin, patch_line = int(header.group(1)), reader.number
    left = {b"-": _count(header.group(2)), b"+": _count(header.group(4))}
    old: List[bytes] = []
    new: List[bytes] = []
    line = begin - 1 if left[b"-"] else begin
    if line < 0:
        malformed(patch_line, "lines are counted from 1")
    reader.at += 1
    while left[b"-"] or left[b"+"]:
        if reader.ended:
            malformed(patch_line, f"hunk {number} ends early: {_missing(left)}")
        _take_line(reader, (old, new), left, (number, patch_line))
    if reader.line().startswith(b"\\ "):
        _drop_end(reader, old, new)
    return Hunk(number, b"".join(old), b"".join(new), line, patch_line)


def _count(group: Optional[bytes]) -> int:
    return 1 if group is None else int(group)


def _missing(left: Dict[bytes, int]) -> str:
    return f"its header counts {left[b'-']} more old and {left[b'+']} more new lines"


def _take_line(
    reader: _Reader, sides: Tuple[List[bytes], List[bytes]], left: Dict[bytes, int], where: Tuple[int, int]
) -> None:
    old, new = sides
    raw = reader.lines[reader.at]
    mark, text = raw[:1], raw[1:]
    if mark == b"\\":
        _drop_end(reader, old, new)
        return
    if raw in (b"\n", b"\r\n"):
        mark, text = b" ", raw  # an empty line that lost its space on the way
    if mark not in (b" ", b"-", b"+"):
        malformed(reader.number, f"hunk {where[0]} ends early: {_missing(left)}")
    for side, lines in ((b"-", old), (b"+", new)):
        if mark in (b" ", side):
            if not left[side]:
                malformed(reader.number, f"hunk {where[0]} (line {where[1]}) has more lines than its header counts")
            left[side] -= 1
            lines.append(text if text.endswith(b"\n") else text + b"\n")
    reader.at += 1


def _drop_end(reader: _Reader, old: List[bytes], new: List[bytes]) -> None:
    """Take the remark that the line before it has no line end."""
    mark = reader.lines[reader.at - 1][:1]
    for side, lines in ((b"-", old), (b"+", new)):
        if mark in (b" ", side) and lines:
            lines[-1] = lines[-1].rstrip(b"\n")
    reader.at += 1

"""``edit``: replace exact pieces of a file, in one step and without touching any other byte."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..params import Params
from ..refusal import Refusal, bad_request
from ..request import Answer, Request
from .confine import confined
from .lines import WHOLE_FILE_BYTES
from .originals import Snapshot, digest, take
from .paths import is_text, path_of, shown
from .preview import preview
from .text import as_crlf, display, is_crlf, nearest
from .transaction import Change, Changed, carry_out

_ATTEMPTS = 50
_LISTED = 10


class Edit(NamedTuple):
    """One replacement. ``where`` names it in errors when there are several."""

    old: bytes
    new: bytes
    replace_all: bool
    where: str


class Edited(NamedTuple):
    """Contents after an edit, how many places changed, and whether line ends were taken as CRLF."""

    body: bytes
    replacements: int
    crlf: bool


def edit(request: Request) -> Answer:
    """Carry out one or more edits of a file, later ones on the result of earlier ones: all of them or none.

    The body holds each edit's old and new bytes one after the other; ``edits`` gives their lengths.
    """
    params = request.params
    path = confined(request, path_of(params), for_write=True)
    edits = _edits(request)
    return patiently(request, lambda: _edit(request, path, edits)), b""


def patiently(request: Request, act: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
    """Act again when a file changed between reading and replacing it, as it does when edits run side by side."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return act()
        except Changed:
            request.check()
    return act()


def _edits(request: Request) -> List[Edit]:
    given = request.params.values.get("edits")
    if not isinstance(given, list) or not given:
        raise bad_request("edit: edits must be a list with at least one edit")
    found: List[Edit] = []
    at = 0
    for number, values in enumerate(given, 1):
        if not isinstance(values, dict):
            raise bad_request(f"edit: edit {number} must be an object")
        params = Params(values, f"edit: edit {number}: ")
        middle = at + params.integer("old", 0)
        end = middle + params.integer("new", 0)
        where = f"edit {number} of {len(given)}: " if len(given) > 1 else ""
        found.append(Edit(request.body[at:middle], request.body[middle:end], params.flag("replace_all"), where))
        at = end
    if at != len(request.body):
        raise bad_request(f"edit: the body has {len(request.body)} bytes, the edits say {at}")
    return found


def _edit(request: Request, path: str, edits: List[Edit]) -> Dict[str, Any]:
    before = take(request, path)
    _check_expectation(path, before, request.params.optional_text("expected_sha256"))
    body = None if before is None else before.body
    counts: List[int] = []
    crlf = False
    for one in edits:
        request.check()
        done = apply_edit(path, body, one)
        body, crlf = done.body, crlf or done.crlf
        counts.append(done.replacements)
    assert body is not None  # noqa: S101 - every edit gives contents
    dry_run = request.params.flag("dry_run")
    if not dry_run and (before is None or body != before.body):
        carry_out(request, [Change(path, before, body)])
    return _report(request, path, (before, body), counts, crlf)


def _check_expectation(path: str, before: Optional[Snapshot], expected: Optional[str]) -> None:
    if expected is None:
        return
    present = None if before is None else digest(before.body)
    if present != expected:
        now = "does not exist" if present is None else f"has sha256 {present}"
        message = f"{shown(path)} is not what was expected: it {now}, expected was {expected}"
        details = {"path": shown(path), "present_sha256": present, "expected_sha256": expected}
        raise Refusal("stale", message, "caller", hint="Read the file again.", details=details)


def apply_edit(path: str, body: Optional[bytes], one: Edit) -> Edited:
    """Return the contents after one edit. In a file of CRLF lines, line feeds in the edit stand for CRLF.

    Raises: Refusal when the old text is not there, is there more than once, or equals the new one.
    """
    if not one.old:
        return _fill(path, body, one)
    if body is None:
        hint = "To create it, give an empty old_string."
        raise Refusal("not_found", f"{one.where}{shown(path)}: No such file", hint=hint)
    old, new = one.old, one.new
    if b"\r" not in old and is_crlf(body):
        old, new = as_crlf(old), as_crlf(new)
    if old == new:
        message = f"{one.where}{shown(path)}: old_string and new_string are the same"
        raise Refusal("no_change", message, "caller", hint="Leave this edit out.")
    crlf = (old, new) != (one.old, one.new)
    first = body.find(old)
    if first < 0:
        raise _not_there(path, body, one)
    if one.replace_all:
        count = body.count(old)
        _check_size(path, len(body) + count * (len(new) - len(old)))
        return Edited(body.replace(old, new), count, crlf)
    if body.find(old, first + 1) >= 0:
        raise _not_unique(path, body, old, one)
    _check_size(path, len(body) + len(new) - len(old))
    return Edited(body[:first] + new + body[first + len(old) :], 1, crlf)


def _fill(path: str, body: Optional[bytes], one: Edit) -> Edited:
    if body:
        message = f"{one.where}{shown(path)} is not empty, so an empty old_string names no place in it"
        raise Refusal("not_unique", message, "caller", hint="Give the text that stands at the place to change.")
    return Edited(one.new, 1, crlf=False)


def _check_size(path: str, size: int) -> None:
    if size > WHOLE_FILE_BYTES:
        message = f"{shown(path)} would have {size} bytes; at most {WHOLE_FILE_BYTES} can be edited"
        raise Refusal("too_large", message, "caller", hint="Change it with a command.")


def _not_unique(path: str, body: bytes, old: bytes, one: Edit) -> Refusal:
    places: List[int] = []
    at, line, seen = body.find(old), 1, 0
    while at >= 0 and len(places) < _LISTED:
        line += body.count(b"\n", seen, at)
        seen = at
        places.append(line)
        at = body.find(old, at + 1)
    count = max(body.count(old), len(places))
    listed = ", ".join(map(str, places)) + (", …" if at >= 0 else "")
    message = f"{one.where}old_string is {count} times in {shown(path)}, at lines {listed}"
    hint = "Give more lines around the one you mean, or set replace_all."
    return Refusal("not_unique", message, "caller", hint=hint, details={"count": count, "lines": places})


def _not_there(path: str, body: bytes, one: Edit) -> Refusal:
    wanted, reason = _first_missing(body, one.old)
    near = nearest(body, wanted)
    lines = [f"  line {found.number}: {display(found.line)}" for found in near]
    listed = "\nThe most similar lines are:\n" + "\n".join(lines) if lines else ""
    message = f"{one.where}old_string is not in {shown(path)}{reason}{listed}"
    hint = "Read the file again and copy the text exactly, with its spaces and tabs."
    if any(b"\\x" in display(found.line).encode() and b"\\x" not in found.line for found in near):
        hint = "These lines have bytes that are no UTF-8, shown as \\xNN: choose an old_string without them."
    details = {"similar_lines": [found.number for found in near]}
    return Refusal("not_found_in_file", message, "caller", hint=hint, details=details)


def _first_missing(body: bytes, old: bytes) -> Tuple[bytes, str]:
    """Return the line of ``old`` that the file lacks (its first one when it has them all), and a remark."""
    lines = [line for line in old.split(b"\n") if line.strip()]
    for line in lines:
        if line not in body:
            if line.strip() in body:
                return line, ", though it is there with other spaces around a line"
            return line, ""
    return (lines[0] if lines else b""), ", though each of its lines is" if len(lines) > 1 else ""


def _report(
    request: Request, path: str, contents: Tuple[Optional[Snapshot], bytes], counts: List[int], crlf: bool
) -> Dict[str, Any]:
    before, body = contents
    previous = b"" if before is None else before.body
    seen = preview(previous, body, request.params.integer("max_diff_bytes", 8192)) if previous != body else None
    return {
        "path": shown(path),
        "escaped": not is_text(path),
        "created": before is None,
        "changed": before is None or previous != body,
        "bytes": len(body),
        "sha256": digest(body),
        "previous_sha256": None if before is None else digest(previous),
        "replacements": counts,
        "first_changed_line": None if seen is None else seen.first_line,
        "crlf": crlf,
        "other_links": 0 if before is None else before.facts.st_nlink - 1,
        "diff": "" if seen is None else seen.text,
        "diff_lines_left_out": 0 if seen is None else seen.left_out,
    }

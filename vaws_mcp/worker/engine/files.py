"""``read`` and ``write``: a page of a text file with facts about the whole, and a file replaced in one step."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from typing import Dict, Optional

from ..refusal import Refusal, bad_request, from_os_error
from ..request import Answer, Request
from .atomic import Like, get_attributes, replace_file
from .confine import confined, held, verify
from .leftovers import sweep
from .lines import WHOLE_FILE_BYTES, Lines, Window

_PROBE_BYTES = 8192


def read(request: Request) -> Answer:
    """Answer with lines of a text file, and with size, times, digest and line count of the whole."""
    params = request.params
    path = confined(request, params.text("path"), for_write=False)
    window = Window(
        offset=params.optional_integer("offset") or 1,
        limit=params.optional_integer("limit"),
        max_bytes=min(params.integer("max_bytes", 262144, 1), WHOLE_FILE_BYTES),
        max_line_bytes=params.integer("max_line_bytes", 2000, 1),
    )
    if window.limit is not None and window.limit < 1:
        raise bad_request("read: limit must be at least 1")
    allow_binary = params.choice("binary", ["refuse", "allow"]) == "allow"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            verify(request, fd, path, for_write=False)
            facts = os.fstat(fd)
            _refuse_special(path, facts)
            if not allow_binary and b"\0" in os.pread(fd, _PROBE_BYTES, 0):
                hint = "Pass binary=allow to get the bytes, or use a tool that understands the format."
                raise Refusal("binary_file", f"{path} is a binary file of {facts.st_size} bytes", hint=hint)
            # Files of the kernel say that they are empty, and are not.
            lines = Lines(fd, facts.st_size or WHOLE_FILE_BYTES, request.check)
            return _read_page(path, facts, window, lines)
        finally:
            os.close(fd)
    except OSError as error:
        raise from_os_error(error, path) from None


def _refuse_special(path: str, facts: os.stat_result) -> None:
    if stat.S_ISDIR(facts.st_mode):
        raise Refusal("is_directory", f"{path} is a directory", hint="List it instead.")
    if not stat.S_ISREG(facts.st_mode):
        raise Refusal("not_a_file", f"{path} is not a regular file")


def _read_page(path: str, facts: os.stat_result, window: Window, lines: Lines) -> Answer:
    whole = lines.read_whole() if facts.st_size <= WHOLE_FILE_BYTES else None
    if window.offset > 0:
        page = lines.page_at(window.offset, window)
    elif whole is None:
        page = lines.last_page(window)
    else:
        page = lines.page_at(max(1, whole.total_lines + window.offset + 1), window)
    following = None
    if page.full and page.first_line is not None:
        following = page.first_line + len(page.lines)
    return {
        "path": path,
        "size": facts.st_size if whole is None else whole.size,
        "mtime_ns": facts.st_mtime_ns,
        "mode": stat.S_IMODE(facts.st_mode),
        "sha256": None if whole is None else whole.sha256,
        "total_lines": None if whole is None else whole.total_lines,
        "first_line": page.first_line,
        "lines": len(page.lines),
        "truncated_lines": page.truncated_lines,
        "next_offset": following,
        "eof": not page.full,
        "note": None if whole is not None else "too large for a digest and a line count in one call",
    }, b"".join(page.lines)


def write(request: Request) -> Answer:
    """Replace or create a file in one step; mode, owner and attributes of an existing one are kept."""
    params = request.params
    path = confined(request, params.text("path"), for_write=True)
    mode = params.optional_integer("mode")
    if mode is not None and not 0 <= mode <= 0o7777:
        raise bad_request("write: mode must be between 0 and 0o7777")
    refuse = params.choice("if_exists", ["replace", "refuse"]) == "refuse"
    try:
        if params.flag("create_dirs"):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        before = _existing(path)
        with held(request, path) as target:
            previous = None if before is None else _digest_of(target, request)
            _check_expectation(path, before is not None and refuse, params.optional_text("expected_sha256"), previous)
            request.check()
            if before is None:
                replace_file(target, request.body, mode=0o666 & ~_umask() if mode is None else mode, exclusive=refuse)
            else:
                _write_over(path, target, request, mode, before)
            sweep(os.path.dirname(target))
    except OSError as error:
        raise from_os_error(error, path) from None
    return {
        "path": path,
        "bytes": len(request.body),
        "sha256": hashlib.sha256(request.body).hexdigest(),
        "created": before is None,
        "previous_sha256": previous,
    }, b""


def _existing(path: str) -> Optional[os.stat_result]:
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    _refuse_special(path, facts)
    return facts


def _digest_of(path: str, request: Request) -> str:
    digest = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        for chunk in Lines(fd, os.fstat(fd).st_size, request.check).chunks():
            digest.update(chunk)
    finally:
        os.close(fd)
    return digest.hexdigest()


def _check_expectation(path: str, exists: bool, expected: Optional[str], previous: Optional[str]) -> None:
    if exists:
        raise Refusal("exists", f"{path} exists already", "caller", hint="Use if_exists=replace to overwrite it.")
    if expected is not None and expected != previous:
        message = f"{path} is not what was expected: sha256 is {previous}, expected {expected}"
        details = {"present_sha256": previous}
        raise Refusal("stale", message, "caller", hint="Read the file again.", details=details)


def _write_over(path: str, target: str, request: Request, mode: Optional[int], before: os.stat_result) -> None:
    wanted = stat.S_IMODE(before.st_mode) if mode is None else mode
    try:
        like = Like(before.st_uid, before.st_gid, _attributes_of(target))
        replace_file(target, request.body, mode=wanted, like=like)
    except PermissionError as error:
        if error.errno != errno.EPERM:
            raise
        message = f"{path} belongs to user {before.st_uid}, and only root may keep that owner"
        raise Refusal("owner_not_kept", message, hint="Write as that user or to another path.") from None


def _attributes_of(path: str) -> Dict[str, bytes]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return get_attributes(fd)
    finally:
        os.close(fd)


def _umask() -> int:
    raw = ""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as stream:
            raw = stream.read()
    except OSError:
        pass
    for line in raw.splitlines():
        if line.startswith("Umask:"):
            return int(line.split()[1], 8)
    return 0o022

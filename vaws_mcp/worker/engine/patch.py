"""``patch``: apply a patch to any number of files, to all of them or to none."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Set

from ..refusal import Refusal, bad_request
from ..request import Answer, Request
from .confine import confined
from .edit import patiently
from .originals import Snapshot, digest, take
from .patch_begin import is_begin_form, read_begin
from .patch_match import Patched, apply_hunks
from .patch_model import FilePatch
from .patch_unified import read_unified
from .paths import is_text, shown
from .transaction import Change, carry_out

_ALL_BYTES = 256 << 20


def patch(request: Request) -> Answer:
    """Apply the patch in the body to files below ``cwd``, all or nothing; a dry run only says what would happen."""
    text = request.body
    if text.count(b"\n") == text.count(b"\r\n"):
        text = text.replace(b"\r\n", b"\n")  # these are the line ends of the patch and say nothing about the files
    if not text.strip():
        raise bad_request("patch: the patch is empty")
    files = read_begin(text) if is_begin_form(text) else read_unified(text)
    params = request.params
    cwd = os.path.realpath(os.path.expanduser(params.optional_text("cwd") or "."))
    if not os.path.isdir(cwd):
        raise Refusal("not_a_directory", f"{shown(cwd)} is not a directory", "caller", hint="Give another cwd.")
    return patiently(request, lambda: _patch(request, cwd, files)), b""


def _patch(request: Request, cwd: str, files: List[FilePatch]) -> Dict[str, Any]:
    tree = _Tree(request, cwd)
    reports: List[Dict[str, Any]] = []
    for file in files:
        request.check()
        reports.append(tree.apply(file))
    changes = tree.changes()
    if changes and not request.params.flag("dry_run"):
        carry_out(request, changes)
    return {"cwd": shown(cwd), "files": reports}


class _State:
    """A file as the patch has made it so far, and what is on disk."""

    def __init__(self, path: str, before: Optional[Snapshot]) -> None:
        self.path = path
        self.before = before
        self.body = None if before is None else before.body
        self.like = before
        self.executable: Optional[bool] = None


class _Tree:
    """The files that a patch touches, in memory: later parts of a patch see what earlier ones have done."""

    def __init__(self, request: Request, cwd: str) -> None:
        self._request = request
        self._cwd = cwd
        self._states: Dict[str, _State] = {}

    def apply(self, file: FilePatch) -> Dict[str, Any]:
        """Do what the patch says about one file, in memory, and report it.

        Raises: Refusal that names the file.
        """
        if file.action == "delete":
            return self._delete(file)
        if file.action in ("move", "copy"):
            return self._move(file)
        if file.action == "add" or self._makes_new(file):
            return self._add(file)
        name = file.path
        if file.other is not None and self._state(name).body is None:
            name = file.other
        state = self._existing(name)
        previous = state.body
        done = self._patched(name, state, file)
        state.body = done.body
        if file.executable is not None:
            state.executable = file.executable
        return _report("update", state, previous, file, done)

    def _makes_new(self, file: FilePatch) -> bool:
        """Tell whether a plain diff adds a file: it has only new lines, and there is no such file."""
        hunks = file.hunks
        only_new = len(hunks) == 1 and hunks[0].line == 0 and not hunks[0].old
        return file.action == "update" and only_new and self._state(file.path).body is None

    def _add(self, file: FilePatch) -> Dict[str, Any]:
        state = self._free(file.path)
        state.body = file.hunks[0].new if file.body is None else file.body
        state.like, state.executable = None, file.executable
        return _report("add", state, None, file, None)

    def _delete(self, file: FilePatch) -> Dict[str, Any]:
        state = self._existing(file.path, itself=True)
        previous, done = state.body, None
        if file.hunks or file.body is not None:
            done = self._patched(file.path, state, file)
            if done.body:
                message = f"{shown(file.path)} has more lines than the patch deletes"
                hint = "Nothing was changed. Read the file again."
                raise Refusal("patch_mismatch", message, "caller", hint=hint)
        state.body = None
        return _report("delete", state, previous, file, done)

    def _move(self, file: FilePatch) -> Dict[str, Any]:
        assert file.source is not None  # noqa: S101 - moves and copies have one
        source = self._existing(file.source, itself=file.action == "move")
        body, like, executable = source.body, source.like, source.executable
        if file.action == "copy" and source.before is not None:
            # The copies of git start from the file as it was before the patch; moves take it as it is now.
            body, like, executable = source.before.body, source.before, None
        target = source if self._real(file.path) == source.path else self._free(file.path)
        if file.action == "move":
            source.body = None
        target.body = body
        target.like, target.executable = like, executable if file.executable is None else file.executable
        done = self._patched(file.path, target, file)
        target.body = done.body
        report = _report(file.action, target, body, file, done)
        return {**report, "source": shown(source.path), "escaped": report["escaped"] or not is_text(source.path)}

    def _patched(self, name: str, state: _State, file: FilePatch) -> Patched:
        assert state.body is not None  # noqa: S101 - the callers have looked
        return apply_hunks(shown(name), state.body, file.hunks)

    def _real(self, name: str) -> str:
        return confined(self._request, os.path.join(self._cwd, name), for_write=True)

    def _state(self, name: str) -> _State:
        path = self._real(name)
        state = self._states.get(path)
        if state is None:
            state = self._states[path] = _State(path, take(self._request, path))
            size = sum(len(known.body or b"") for known in self._states.values())
            if size > _ALL_BYTES:
                message = f"the files of this patch have more than {_ALL_BYTES} bytes together"
                raise Refusal("too_large", message, "caller", hint="Cut the patch into several.")
        return state

    def _existing(self, name: str, *, itself: bool = False) -> _State:
        """Return a file that is there; ``itself`` refuses a link to it, which would be left behind."""
        state = self._state(name)
        if state.body is None:
            hint = "Nothing was changed. Names are relative to cwd."
            raise Refusal("not_found", f"{shown(state.path)}: No such file", "caller", hint=hint)
        if itself:
            self._refuse_link(name)
        return state

    def _free(self, name: str) -> _State:
        state = self._state(name)
        if state.body is not None:
            hint = "Nothing was changed. Update it instead, or delete it first."
            raise Refusal("exists", f"{shown(state.path)} exists already", "caller", hint=hint)
        self._refuse_link(name)
        return state

    def _refuse_link(self, name: str) -> None:
        if os.path.islink(os.path.join(self._cwd, name)):
            message = f"{shown(os.path.join(self._cwd, name))} is a symbolic link"
            raise Refusal("is_symlink", message, "caller", hint="Name the file that it leads to.")

    def changes(self) -> List[Change]:
        """Return what has to happen on disk."""
        found: List[Change] = []
        for state in self._states.values():
            old = None if state.before is None else state.before.body
            if old is None and state.body is None:
                continue
            if old == state.body and state.executable is None and state.like is state.before:
                continue
            found.append(Change(state.path, state.before, state.body, state.like, state.executable))
        _refuse_files_as_folders({change.path for change in found if change.body is not None})
        return found


def _refuse_files_as_folders(written: Set[str]) -> None:
    for path in written:
        folder = os.path.dirname(path)
        while folder != "/":
            if folder in written:
                message = f"{shown(folder)} would be a file, and {shown(path)} a file in it"
                raise Refusal("bad_patch", message, "caller", hint="Correct the patch.")
            folder = os.path.dirname(folder)


def _report(
    action: str, state: _State, previous: Optional[bytes], file: FilePatch, done: Optional[Patched]
) -> Dict[str, Any]:
    body = state.body
    return {
        "path": shown(state.path),
        "escaped": not is_text(state.path),
        "action": action,
        "source": None,
        "bytes": None if body is None else len(body),
        "sha256": None if body is None else digest(body),
        "previous_sha256": None if previous is None else digest(previous),
        "executable": file.executable,
        "hunks": len(file.hunks),
        "offsets": [] if done is None else [{"hunk": hunk, "lines": lines} for hunk, lines in done.offsets],
        "crlf": done is not None and done.crlf,
    }

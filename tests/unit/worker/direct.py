"""Calls of worker methods inside the test's process, for tests that make very many of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vaws_mcp.worker.engine.edit import edit
from vaws_mcp.worker.engine.patch import patch
from vaws_mcp.worker.request import Call, Request

Step = tuple[bytes, bytes, bool]


def request(method: str, params: dict[str, Any], body: bytes) -> Request:
    return Request(Call(1, method, params, body, None), lambda _head, _body: None)


def edit_params(path: Path | str, steps: Sequence[Step]) -> tuple[dict[str, Any], bytes]:
    """Return parameters and body of an ``edit`` request."""
    edits = [{"old": len(old), "new": len(new), "replace_all": every} for old, new, every in steps]
    return {"path": str(path), "edits": edits}, b"".join(old + new for old, new, _ in steps)


def edit_file(path: Path | str, *steps: Step, **params: Any) -> dict[str, Any]:
    given, body = edit_params(path, steps)
    return edit(request("edit", {**given, **params}, body))[0]


def patch_tree(cwd: Path, text: bytes, **params: Any) -> dict[str, Any]:
    return patch(request("patch", {"cwd": str(cwd), **params}, text))[0]


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return the files below a folder with contents and mode."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode & 0o7777) for path in files}

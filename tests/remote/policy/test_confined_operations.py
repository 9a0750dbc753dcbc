"""Every operation on files keeps to the root of its endpoint, also such as are written later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from injection import minimal, operations

from tests.connect.places import Place
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.operation import Operation
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.registry import load_endpoints, save_endpoint

PLACES = ("file_path", "path", "remote_path", "cwd")
# A command goes where its user may go: the root holds for operations on files.
FREE = {"remote_bash"}
PATCH = "--- {0}\n+++ {0}\n@@ -1 +1 @@\n-secret\n+changed\n"


def cases() -> list[tuple[Operation, str]]:
    return [
        (operation, name)
        for operation in operations()
        for name in PLACES
        if name in operation.request.model_fields and operation.name not in FREE
    ]


@pytest.fixture
def outside(place: Place, tmp_path: Path) -> Path:
    """A directory beside the root of the endpoint ``confined``, with a file in it."""
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret\n")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "local").write_text("local")
    known = load_endpoints(place.state_dir)[place.kind]
    save_endpoint(place.state_dir, known.model_copy(update={"name": "confined", "root": str(tmp_path / "root")}))
    return tmp_path / "outside"


async def call(place: Place, operation: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
    async with Resources() as resources:
        return await invoke(operation, {**arguments, "endpoint": "confined"}, Context(place.state_dir, resources))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_there_are_operations_to_look_at() -> None:
    assert {operation.name for operation, _name in cases()} >= {"remote_read", "remote_write"}


@pytest.mark.parametrize(("operation", "name"), cases(), ids=lambda value: getattr(value, "name", value))
@pytest.mark.asyncio
async def test_no_operation_leaves_the_root(place: Place, outside: Path, operation: Operation, name: str) -> None:
    root = outside.parent / "root"
    local = str(outside.parent / ("local" if operation.name == "artifact_push" else "new"))
    for path in (outside / "file", root / "link" / "file", root / ".." / "outside" / "file"):
        where = str(path.parent if name == "cwd" else path)
        known = {"local_path": local, "patch": PATCH.format("file"), "old_string": "secret", name: where}
        base = minimal(operation, **known)
        answer = await call(place, operation, {**base, name: where})
        assert answer.get("error", {}).get("code") == "outside_root", (where, answer)
    assert (outside / "file").read_text() == "secret\n"
    assert names_in(outside) == ["file"]


@pytest.mark.parametrize("name", ["../outside/file", "link/file", "../../../../../../../../../../etc/hostname"])
@pytest.mark.asyncio
async def test_no_patch_leads_out(place: Place, outside: Path, name: str) -> None:
    (found,) = [operation for operation in operations() if operation.name == "remote_apply_patch"] or [None]
    if found is None:
        pytest.skip("there is no remote_apply_patch")
    arguments = {"cwd": str(outside.parent / "root"), "patch": PATCH.format(name)}
    answer = await call(place, found, arguments)
    assert answer["outcome"] == "failed"
    assert answer["error"]["code"] in ("outside_root", "bad_patch", "bad_path"), answer
    assert (outside / "file").read_text() == "secret\n"

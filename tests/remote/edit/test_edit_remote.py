"""The edit operations as a caller has them, on a real SSH server and on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.connect.places import Place, Server, until
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.models import RESERVED_KEYS
from vaws_mcp.core.operation import Operation
from vaws_mcp.core.schema import plain_schema
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.connect import connected
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import load_endpoints
from vaws_mcp.workspace.edit.operations import remote_apply_patch, remote_edit, remote_multi_edit
from vaws_mcp.workspace.ledger import Ledger, expected, guarded, remember

pytestmark = pytest.mark.asyncio(loop_scope="function")

OPERATIONS = (remote_edit, remote_multi_edit, remote_apply_patch)
Answer = dict[str, Any]


class Editor:
    """A caller that keeps its connections and what it has read between calls."""

    def __init__(self, state_dir: Path, endpoint: str, resources: Resources) -> None:
        self._state_dir = state_dir
        self.endpoint = endpoint
        self._resources = resources

    def context(self) -> Context:
        return Context(state_dir=self._state_dir, resources=self._resources)

    async def call(self, operation: Operation, **arguments: Any) -> Answer:
        return await invoke(operation, {"endpoint": self.endpoint, **arguments}, self.context())

    async def edit(self, path: Path | str, old: str, new: str, **more: Any) -> Answer:
        return await self.call(remote_edit, file_path=str(path), old_string=old, new_string=new, **more)

    async def saw(self, path: Path) -> None:
        """Note the file's hash as remote_read does."""
        ctx = self.context()
        endpoint = await connected(ctx, load_endpoints(self._state_dir)[self.endpoint])
        await remember(ctx, endpoint, real(path), sha256(path), requested=str(path))


def real(path: Path) -> str:
    return str(path.resolve())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextlib.asynccontextmanager
async def editor_of(state_dir: Path, endpoint: str) -> AsyncGenerator[Editor]:
    async with Resources() as resources:
        yield Editor(state_dir, endpoint, resources)


async def test_an_edit_answers_with_hashes_line_and_diff(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\ntw\xff\nthree\n")
    before = sha256(path)
    async with editor_of(place.state_dir, place.kind) as editor:
        answer = await editor.edit(path, "three", "drei\nvier")
    assert path.read_bytes() == b"one\ntw\xff\ndrei\nvier\n"
    assert (answer["outcome"], answer["replacements"], answer["first_changed_line"]) == ("success", [1], 3)
    assert (answer["previous_sha256"], answer["sha256"]) == (before, sha256(path))
    assert answer["diff"] == "@@ -1,3 +1,4 @@\n one\n tw\\xff\n-three\n+drei\n+vier\n"
    assert answer["summary"].endswith("edited: 1 replacement, first at line 3")


async def test_a_file_that_changed_after_it_was_read_is_not_edited(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a b c")
    async with editor_of(place.state_dir, place.kind) as editor:
        assert (await editor.edit(path, "a", "A"))["outcome"] == "success"  # never read: allowed
        assert (await editor.edit(path, "b", "B"))["outcome"] == "success"  # our own change is no news
        seen = sha256(path)
        path.write_text("A B c, and more")
        answer = await editor.edit(path, "c", "C")
        error = answer["error"]
        assert (answer["outcome"], error["code"], error["layer"]) == ("failed", "stale_read", "caller")
        assert seen in error["message"]
        assert sha256(path) in error["message"]
        assert str(path) in error["message"]
        assert "remote_read" in error["hint"]
        assert path.read_text() == "A B c, and more"
        given = await editor.edit(path, "c", "C", expected_sha256=sha256(path))
        assert given["outcome"] == "success"
        path.write_text("new c")
        await editor.saw(path)
        assert (await editor.edit(path, "c", "C"))["outcome"] == "success"
        path.unlink()
        assert (await editor.edit(path, "C", "c"))["error"]["code"] == "stale_read"


async def test_a_wrong_hash_of_the_caller_is_not_called_a_stale_read(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a")
    async with editor_of(place.state_dir, place.kind) as editor:
        answer = await editor.edit(path, "a", "b", expected_sha256="0" * 64)
    assert answer["error"]["code"] == "stale"
    assert path.read_text() == "a"


async def test_edits_of_one_caller_at_once_all_happen(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("".join(f"<{number}>\n" for number in range(30)))
    answers: list[Answer] = []
    async with editor_of(place.state_dir, place.kind) as editor:
        await editor.saw(path)

        async def one(number: int) -> None:
            answers.append(await editor.edit(path, f"<{number}>", f"[{number}]"))

        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(one, number)
    assert {answer["outcome"] for answer in answers} == {"success"}
    assert path.read_text() == "".join(f"[{number}]\n" for number in range(30))


async def test_the_ledger_knows_a_file_by_both_of_its_names(place: Place, tmp_path: Path) -> None:
    path, link = tmp_path / "f", tmp_path / "link"
    path.write_text("a")
    link.symlink_to(path)
    async with editor_of(place.state_dir, place.kind) as editor:
        assert (await editor.edit(link, "a", "b"))["path"] == str(path)
        path.write_text("b, by somebody else")
        for name in (link, path):
            assert (await editor.edit(name, "b", "c"))["error"]["code"] == "stale_read"


async def test_several_edits_happen_all_or_not_at_all(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one two")
    steps = [{"old_string": "one", "new_string": "1"}, {"old_string": "1 two", "new_string": "done"}]
    async with editor_of(place.state_dir, place.kind) as editor:
        bad = [*steps, {"old_string": "nowhere", "new_string": "x"}]
        answer = await editor.call(remote_multi_edit, file_path=str(path), edits=bad)
        assert answer["error"]["code"] == "not_found_in_file"
        assert "edit 3 of 3" in answer["error"]["message"]
        assert path.read_text() == "one two"
        answer = await editor.call(remote_multi_edit, file_path=str(path), edits=steps)
    assert (answer["replacements"], path.read_text()) == ([1, 1], "done")


async def test_names_of_other_clients_are_taken(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a")
    async with editor_of(place.state_dir, place.kind) as editor:
        answer = await editor.call(remote_edit, path=str(path), old_str="a", new_str="b")
    assert (answer["outcome"], path.read_text(), len(answer["warnings"])) == ("success", "b", 3)


async def test_a_name_that_is_no_utf_8_goes_there_and_back(place: Place, tmp_path: Path) -> None:
    raw = os.path.join(os.fsencode(tmp_path), b"odd \\ \xff\n'$(x)")  # noqa: PTH118 - these are bytes
    with open(raw, "wb") as stream:  # noqa: ASYNC230, PTH123
        stream.write(b"a")
    name = f"{tmp_path}/odd \\\\ \\xff\n'$(x)"
    async with editor_of(place.state_dir, place.kind) as editor:
        answer = await editor.edit(name, "a", "b", escaped=True)
        assert (answer["path"], answer["escaped"]) == (name, True)
        assert (await editor.edit(answer["path"], "b", "c", escaped=True))["outcome"] == "success"
        missing = await editor.edit(name + "x", "b", "c", escaped=True)
        assert "\\xff" in missing["error"]["message"]
    with open(raw, "rb") as stream:  # noqa: ASYNC230, PTH123
        assert stream.read() == b"c"


PATCH = """diff --git a/f b/f
--- a/f
+++ b/f
@@ -1,2 +1,2 @@
-one
+ONE
 two
diff --git a/sub/new b/sub/new
new file mode 100755
--- /dev/null
+++ b/sub/new
@@ -0,0 +1 @@
+new
diff --git a/old b/moved
similarity index 100%
rename from old
rename to moved
"""


async def test_a_patch_changes_all_files_or_none_and_is_remembered(place: Place, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\n")
    (tmp_path / "old").write_text("x")
    async with editor_of(place.state_dir, place.kind) as editor:
        bad = PATCH + "--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-a\n+b\n"
        answer = await editor.call(remote_apply_patch, patch=bad, cwd=str(tmp_path))
        assert answer["error"]["code"] == "not_found"
        assert str(tmp_path / "gone") in answer["error"]["message"]
        assert names_in(tmp_path) == ["f", "old"]
        answer = await editor.call(remote_apply_patch, patch=PATCH, cwd=str(tmp_path))
        assert [file["action"] for file in answer["files"]] == ["update", "add", "move"]
        assert answer["summary"].endswith("1 update, 1 add, 1 move")
        assert (tmp_path / "f").read_text() == "ONE\ntwo\n"
        assert (tmp_path / "sub" / "new").stat().st_mode & 0o111 == 0o111
        assert (tmp_path / "moved").read_text() == "x"
        (tmp_path / "sub" / "new").write_text("other")
        assert (await editor.edit(tmp_path / "sub" / "new", "other", "x"))["error"]["code"] == "stale_read"


async def test_a_mismatch_says_what_stands_there(place: Place, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\n2\n")
    async with editor_of(place.state_dir, place.kind) as editor:
        answer = await editor.call(remote_apply_patch, patch=PATCH, cwd=str(tmp_path))
    assert answer["error"]["code"] == "patch_mismatch"
    assert (answer["expected_lines"], answer["found_lines"]) == (["one", "two"], ["one", "2"])


async def test_a_policy_holds_for_edits_and_patches(server: Server, tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "f").write_text("one\ntwo\n")
        (folder / "old").write_text("x")
    (inside / "link").symlink_to(outside / "f")
    (inside / "folder").symlink_to(outside)
    server.register(tmp_path / "state", root=str(inside), deny_paths=["secret"])
    async with editor_of(tmp_path / "state", "box") as editor:
        for name in (outside / "f", inside / "link", inside / ".." / "out" / "f", inside / "folder" / "n"):
            assert (await editor.edit(name, "one", "1"))["error"]["code"] == "outside_root"
        answer = await editor.call(remote_apply_patch, patch=PATCH, cwd=str(outside))
        assert answer["error"]["code"] == "outside_root"
        through = "*** Begin Patch\n*** Add File: folder/n\n+x\n*** End Patch\n"
        answer = await editor.call(remote_apply_patch, patch=through, cwd=str(inside))
        assert answer["error"]["code"] == "outside_root"
        absolute = f"*** Begin Patch\n*** Update File: f\n-one\n+1\n*** Delete File: {outside}/old\n*** End Patch\n"
        answer = await editor.call(remote_apply_patch, patch=absolute, cwd=str(inside))
        assert answer["error"]["code"] == "outside_root"
        assert (await editor.edit(inside / "secret", "", "x"))["error"]["code"] == "path_denied"
        assert (await editor.edit(inside / "f", "two", "2"))["outcome"] == "success"
        assert (await editor.call(remote_apply_patch, patch=PATCH, cwd=str(inside)))["error"][
            "code"
        ] == "patch_mismatch"
    assert (outside / "f").read_text() == "one\ntwo\n"
    assert (inside / "f").read_text() == "one\n2\n"
    server.register(tmp_path / "state", read_only=True)
    async with editor_of(tmp_path / "state", "box") as editor:
        assert (await editor.edit(inside / "f", "one", "1"))["error"]["code"] == "read_only"


async def test_a_connection_cut_in_the_middle_leaves_old_or_new(server: Server, tmp_path: Path) -> None:
    chance = random.Random(3)  # noqa: S311 - no secret
    names = [f"f{number}" for number in range(30)]
    for name in names:
        (tmp_path / name).write_text("old\n" * 50)
    patch = "*** Begin Patch\n"
    patch += "".join(f"*** Update File: {name}\n*** Move to: {name}.new\n@@\n+tail\n" for name in names)
    patch += "*** End Patch\n"
    outcomes: set[str] = set()
    for attempt in range(40):
        if attempt >= 6 and "outcome_unknown" in outcomes:
            break
        async with editor_of(tmp_path / "state", "box") as editor:
            await editor.edit(tmp_path / "warm", "", "x")
            answers: list[Answer] = []

            async def one(editor: Editor = editor, answers: list[Answer] = answers) -> None:
                answers.append(await editor.call(remote_apply_patch, patch=patch, cwd=str(tmp_path)))

            async with anyio.create_task_group() as group:
                group.start_soon(one)
                await anyio.sleep(chance.uniform(0, 0.1))
                server.kill_connections()
            outcomes.add(answers[0].get("error", {}).get("code", "success"))
            # The worker ends what it does, then itself.
            await until(lambda: not list(tmp_path.glob(".vaws-tmp-*")), "nothing is left over", 20)
        done = [name for name in names if (tmp_path / f"{name}.new").exists()]
        for name in names:
            where = tmp_path / (f"{name}.new" if done else name)
            assert where.read_text() == "old\n" * 50 + ("tail\n" if done else "")
            assert not (tmp_path / (name if done else f"{name}.new")).exists()
            where.unlink()
            (tmp_path / name).write_text("old\n" * 50)
        (tmp_path / "warm").unlink()
    assert "outcome_unknown" in outcomes


async def test_writers_of_a_file_take_turns() -> None:
    ledger, path = Ledger(), (EndpointConfig(name="local"), "/f")
    inside = 0

    async def write() -> None:
        nonlocal inside
        async with ledger.turn(path):
            inside += 1
            assert inside == 1
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(write)
    assert ledger.waiting == 0


async def test_the_ledger_forgets_the_oldest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaws_mcp.workspace.ledger.MOST_FILES", 3)
    async with editor_of(place.state_dir, place.kind) as editor:
        ctx = editor.context()
        endpoint = await connected(ctx, load_endpoints(place.state_dir)[place.kind])
        for number in range(5):
            await remember(ctx, endpoint, f"/f{number}", str(number))
        assert [await expected(ctx, endpoint, f"/f{number}") for number in range(5)] == [None, None, "2", "3", "4"]
        await remember(ctx, endpoint, "/f4", None)
        assert await expected(ctx, endpoint, "/f4") is None
        async with guarded(ctx, endpoint, "/f3") as known, guarded(ctx, endpoint, "/f3x", "given") as given:
            assert (known, given) == ("3", "given")


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
async def test_schemas_are_plain_and_every_field_is_described(operation: Operation) -> None:
    for model in (operation.request, operation.result):
        schema = plain_schema(model)
        assert all(field.get("description") for field in schema["properties"].values())
    own = set(operation.result.model_fields) - set(operation.result.__mro__[1].model_fields)
    assert not own & RESERVED_KEYS

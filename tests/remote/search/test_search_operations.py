"""The operations as a client calls them, over a real SSH server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live import sshd
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.operation import Operation
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint
from vaws_mcp.workspace.search.operations import remote_glob, remote_grep, remote_ls

pytestmark = pytest.mark.asyncio(loop_scope="function")


class Caller:
    """Calls one operation after the other on the endpoint ``box``, each with a context of its own."""

    def __init__(self, state_dir: Path, files: Path) -> None:
        self.state_dir = state_dir
        self.files = files

    async def call(self, operation: Operation, **arguments: Any) -> dict[str, Any]:
        async with Resources() as resources:
            ctx = Context(state_dir=self.state_dir, resources=resources)
            return await invoke(operation, {"endpoint": "box", **arguments}, ctx)


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    if sshd.sshd_path() is None:
        pytest.skip(sshd.SSHD_MISSING)
    folder = tmp_path_factory.mktemp("search")
    home, files = folder / "home", folder / "files"
    (home / ".ssh").mkdir(parents=True)
    (files / "src").mkdir(parents=True)
    (files / "src" / "a.py").write_text("import os\nx = 1\nprint(X)\n")
    (files / "b.md").write_text("x marks\n")
    (files / ".env").write_text("x=2\n")
    with pytest.MonkeyPatch.context() as patch, sshd.running_sshd(folder / "sshd", [f"SetEnv HOME={home}"]) as facts:
        patch.setenv("HOME", str(home))
        own = {"host": facts.host, "port": facts.port, "user": facts.user, "workdir": str(files)}
        keys = {"identity_file": str(facts.identity_file), "known_hosts": str(facts.known_hosts)}
        save_endpoint(folder / "state", EndpointConfig.model_validate({"name": "box", **own, **keys}))
        yield Caller(folder / "state", files)


async def test_a_search_begins_in_the_workdir_and_gives_files(caller: Caller) -> None:
    answer = await caller.call(remote_grep, pattern="^x")
    assert answer["outcome"] == "success", answer
    assert answer["path"] == str(caller.files)
    assert sorted(answer["files"]) == [".env", "b.md", "src/a.py"]
    assert (answer["total_files"], answer["complete"], answer["timed_out"]) == (3, True, False)


async def test_arguments_of_common_clients_are_taken_and_named(caller: Caller) -> None:
    given = {"-i": True, "-A": 1, "-B": "1", "-n": True, "include": "*.py", "limit": 1, "directory": "src"}
    answer = await caller.call(remote_grep, query="X", output_mode="content", **given)
    assert answer["matches"] == [{"file": "a.py", "lines": ["1-import os", "2:x = 1", "3-print(X)"]}]
    assert answer["next_offset"] == 1
    assert answer["hint"] == "Call remote_grep with offset=1 for more."
    assert {warning.split("'")[1] for warning in answer["warnings"]} == {*given, "query"}
    plain = await caller.call(remote_grep, pattern="x = ", path="src/a.py", output_mode="content", **{"-n": False})
    assert plain["matches"] == [{"file": "a.py", "lines": ["x = 1"]}]


async def test_counts_come_with_their_files(caller: Caller) -> None:
    answer = await caller.call(remote_grep, pattern="x", ignore_case=True, output_mode="count", glob=["*.py", "*.md"])
    assert answer["counts"] == [{"file": "b.md", "count": 1}, {"file": "src/a.py", "count": 2}]
    assert (answer["total_matches"], answer["files"]) == (3, [])


async def test_a_pattern_outside_of_the_subset_says_what_to_do(caller: Caller) -> None:
    answer = await caller.call(remote_grep, pattern="(?=x)")
    assert answer["outcome"] == "failed"
    assert answer["error"]["code"] == "bad_pattern"
    assert answer["error"]["layer"] == "caller"
    assert "fixed_strings" in answer["error"]["hint"]
    nothing = await caller.call(remote_grep, pattern="no such text")
    assert (nothing["outcome"], nothing["summary"]) == ("success", "nothing matches")


async def test_glob_and_ls_answer_with_pages(caller: Caller) -> None:
    answer = await caller.call(remote_glob, pattern="**/*.{py,md}", sort="path", limit=1)
    assert (answer["files"], answer["total"], answer["next_offset"]) == (["b.md"], 2, 1)
    assert answer["hint"] == "Call remote_glob with offset=1 for more."
    listed = await caller.call(remote_ls, all=True)
    assert [entry["name"] for entry in listed["entries"]] == [".env", "b.md", "src"]
    assert listed["entries"][1]["mode"] == f"{(caller.files / 'b.md').stat().st_mode & 0o7777:04o}"
    assert (await caller.call(remote_ls, path="src"))["total"] == 1
    assert (await caller.call(remote_ls))["hidden"] == 1

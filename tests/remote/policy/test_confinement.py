"""File operations stay below the root, whatever links and dots the path has, and away from denied paths."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.connect.places import Box, Place
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import load_endpoints, save_endpoint
from vaws_mcp.worker.engine.confine import confined, held, verify
from vaws_mcp.worker.refusal import Refusal
from vaws_mcp.worker.request import Call, Request


@asynccontextmanager
async def open_confined(place: Place, root: Path, *denied: str) -> AsyncGenerator[Box]:
    known = load_endpoints(place.state_dir)[place.kind]
    config = known.model_copy(update={"name": "confined", "root": str(root), "deny_paths": denied})
    save_endpoint(place.state_dir, config)
    async with Resources() as resources:
        yield Box(Context(place.state_dir, resources), "confined")


def code_of(answer: dict[str, Any]) -> str | None:
    return answer.get("error", {}).get("code")


@pytest.mark.asyncio
async def test_nothing_outside_of_the_root_is_read_or_written(place: Place, tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (tmp_path / "root-twin").mkdir()
    (root / "own").write_text("own\n")
    (root / "link").symlink_to(outside / "secret")
    (root / "way out").symlink_to(outside)
    (root / "sub" / "relative").symlink_to("../../outside")
    (root / "inside").symlink_to(root / "sub")
    paths = [
        outside / "secret",
        root / ".." / "outside" / "secret",
        root / "link",
        root / "way out" / "secret",
        root / "sub" / "relative" / "secret",
        root / "nowhere" / ".." / ".." / "outside" / "secret",
        tmp_path / "root-twin" / "x",
        "/etc/passwd",
        "~/x",
    ]
    async with open_confined(place, root) as box:
        for path in map(str, paths):
            assert code_of(await box.call("remote_read", file_path=path)) == "outside_root", path
            written = await box.call("remote_write", file_path=path + "-new", content="x")
            assert code_of(written) in ("outside_root", None), path
            written = await box.call("remote_write", file_path=path, content="x")
            assert code_of(written) == "outside_root", path
            assert path in written["error"]["message"]
            assert str(root) in written["error"]["message"]
        assert (await box.call("remote_read", file_path=str(root / "own")))["content"] == "own\n"
        new = await box.call("remote_write", file_path=str(root / "inside" / "deep" / "new"), content="new")
        assert new["path"] == str(root / "sub" / "deep" / "new")
    assert (outside / "secret").read_text() == "secret"
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (root / "sub" / "deep" / "new").read_text() == "new"


@pytest.mark.asyncio
async def test_denied_paths_are_refused_by_name(place: Place, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "keys").mkdir(parents=True)
    (root / "keys" / "id").write_text("key")
    (root / "real").mkdir()
    (root / "real" / "data").write_text("data")
    (root / "alias").symlink_to(root / "real")
    (root / "harmless").symlink_to(root / "keys" / "id")
    denied = [f"{root}/keys", "*.pem", ".git", f"{root}/alias/d*"]
    async with open_confined(place, root, *denied) as box:
        for name in ("keys/id", "keys/new", "harmless", "a/b.pem", ".git/config", "alias/data", "real/data"):
            answer = await box.call("remote_read", file_path=str(root / name))
            assert code_of(answer) == "path_denied", name
            answer = await box.call("remote_write", file_path=str(root / name), content="x")
            assert code_of(answer) == "path_denied", name
        fine = await box.call("remote_write", file_path=str(root / "real" / "other.pem.txt"), content="x")
        assert fine["outcome"] == "success"
    assert (root / "keys" / "id").read_text() == "key"


@pytest.mark.asyncio
async def test_a_root_that_is_missing_lets_nothing_through(place: Place, tmp_path: Path) -> None:
    async with open_confined(place, tmp_path / "absent") as box:
        answer = await box.call("remote_read", file_path=str(tmp_path / "absent" / "x"))
        assert code_of(answer) == "root_missing"


def request_for(root: Path, *denied: str) -> Request:
    params = {"policy": {"root": str(root), "deny_paths": list(denied)}}
    return Request(Call(1, "read", params, b"", None), lambda _head, _body: None)


NAMES = st.sampled_from(["a", "b", "to_a", "out", "up", "loop", "..", ".", "new", ""])


@pytest.fixture(scope="module")
def maze(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with links inside, to the outside, upwards and in a circle."""
    root = tmp_path_factory.mktemp("maze") / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "out").symlink_to(root.parent)
    (root / "to_a").symlink_to("a")
    (root / "out").symlink_to("/")
    (root / "a" / "up").symlink_to("../..")
    (root / "a" / "b" / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    return root


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(NAMES, max_size=7))
def test_any_path_is_judged_by_where_the_kernel_would_go(maze: Path, parts: list[str]) -> None:
    path = "/".join([str(maze), *parts])
    real = place_of(maze, path)
    exists = leads_somewhere(path)
    if real is None:
        assert not exists or not Path(path).resolve().is_relative_to(maze)
        return
    assert Path(real).is_relative_to(maze)
    assert ".." not in real.split("/")
    assert not exists or Path(real).samefile(path)


def place_of(root: Path, path: str) -> str | None:
    try:
        return confined(request_for(root), path, for_write=True)
    except Refusal as refusal:
        if refusal.code != "outside_root":
            raise
        return None


def leads_somewhere(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # a link to itself
        return False


def test_a_directory_that_became_a_link_diverts_nothing(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("outside")
    request = request_for(root)
    path = confined(request, str(root / "sub" / "file"), for_write=True)
    (root / "sub").rename(root / "moved")
    (root / "sub").symlink_to(outside)
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(Refusal, match="outside of"):
        verify(request, fd, path, for_write=False)
    os.close(fd)
    with pytest.raises(Refusal, match="outside of"), held(request, path):
        raise AssertionError("it was let in")


def test_a_directory_exchanged_while_it_is_held_diverts_nothing(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    request = request_for(root)
    path = confined(request, str(root / "sub" / "file"), for_write=True)
    with held(request, path) as target:
        (root / "sub").rename(root / "moved")
        (root / "sub").symlink_to(outside)
        Path(target).write_text("mine")
    assert (root / "moved" / "file").read_text() == "mine"
    assert not any(outside.iterdir())


def test_without_a_policy_a_path_is_only_resolved(tmp_path: Path) -> None:
    request = Request(Call(1, "read", {}, b"", None), lambda _head, _body: None)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert confined(request, str(tmp_path / "link"), for_write=True) == str(tmp_path / "file")
    with held(request, "/x/y") as target:
        assert target == "/x/y"


def test_the_root_of_everything_confines_nothing(tmp_path: Path) -> None:
    assert confined(request_for(Path("/")), str(tmp_path / "x"), for_write=True) == str(tmp_path / "x")


def test_an_endpoint_keeps_its_limits_in_the_file(tmp_path: Path) -> None:
    config = EndpointConfig(
        name="box", root="/srv", read_only=True, deny_commands=(r"rm\s+-rf",), deny_paths=("*.pem",)
    )
    save_endpoint(tmp_path, config)
    assert load_endpoints(tmp_path)["box"] == config

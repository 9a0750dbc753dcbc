"""A container whose npu-smi cannot be used: its host is asked, and the answer says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from npu_texts import chips, id_map, info
from npu_tool import Tool

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Failure, Refused
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.npu import operations
from vaws_mcp.npu.models import ProbeRequest
from vaws_mcp.npu.operations import npu_probe
from vaws_mcp.worker.engine.npu.probe import snapshot


class Answer:
    def __init__(self, result: dict[str, Any]) -> None:
        self.result = result


class Place:
    """An endpoint whose worker's answer is given."""

    def __init__(self, config: EndpointConfig, result: dict[str, Any]) -> None:
        self.config, self.result = config, result

    def env_spec(self) -> dict[str, Any]:
        return {}

    async def call(self, method: str, _params: dict[str, Any], *, deadline_s: float) -> Answer:
        assert method == "npu.probe"
        assert deadline_s > 30
        return Answer(self.result)


CONTAINER = EndpointConfig(name="box", host="example", container="work", env_files=("/env.sh",), venv="/venv")


class World:
    """What the container and its host answer; ``asked`` notes the configuration the host was reached with."""

    def __init__(self, patch: pytest.MonkeyPatch, inside: dict[str, Any], host: dict[str, Any] | Failure) -> None:
        self.asked: list[EndpointConfig] = []
        self.config = CONTAINER

        async def reach(_ctx: Context, _request: ProbeRequest) -> Place:
            return Place(self.config, inside)

        async def connected(_ctx: Context, config: EndpointConfig) -> Place:
            self.asked.append(config)
            if isinstance(host, Failure):
                raise host
            return Place(config, host)

        patch.setattr(operations, "reach", reach)
        patch.setattr(operations, "connected", connected)


@pytest.fixture
def good(tmp_path: Path) -> dict[str, Any]:
    tool = Tool(tmp_path)
    tool.answers("info", info("classic", chips("classic")))
    tool.answers("info -m", id_map(chips("classic")))
    return snapshot(tool.env).as_json()


def failed(tmp_path: Path, text: str = "") -> dict[str, Any]:
    folder = tmp_path / "bad"
    folder.mkdir()
    tool = Tool(folder)
    tool.complains("info", text)
    return snapshot(tool.env).as_json()


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    return Context(tmp_path, Resources())


LIBRARIES = "npu-smi: error while loading shared libraries: libc_sec.so\n"


@pytest.mark.asyncio
async def test_the_host_answers_for_a_container_that_cannot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, good: dict[str, Any], ctx: Context
) -> None:
    world = World(monkeypatch, failed(tmp_path, LIBRARIES), good)
    result = await npu_probe(ProbeRequest(), ctx)
    assert result.model_dump()["probed_on"] == "host"
    assert [device["occupancy"] for device in result.model_dump()["devices"]] == ["free"] * 3
    # The logic ids of the host are not those of the container.
    assert {row["logic"] for row in result.model_dump()["map"]} == {None}
    asked = world.asked[0]
    assert (asked.host, asked.container, asked.env_files, asked.venv) == ("example", None, (), None)
    assert any("its host was probed" in warning for warning in ctx.warnings)


@pytest.mark.asyncio
async def test_a_working_container_is_not_left(
    monkeypatch: pytest.MonkeyPatch, good: dict[str, Any], ctx: Context
) -> None:
    world = World(monkeypatch, good, good)
    result = (await npu_probe(ProbeRequest(), ctx)).model_dump()
    assert (result["probed_on"], world.asked) == ("endpoint", [])
    assert [row["logic"] for row in result["map"]] == [0, 1, 2]
    assert [row["bus_id"] for row in result["map"]] == [device["bus_id"] for device in result["devices"]]


@pytest.mark.asyncio
@pytest.mark.parametrize("host", ["unreachable", "useless"])
async def test_when_the_host_knows_nothing_either_the_error_is_the_containers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ctx: Context, host: str
) -> None:
    bad = failed(tmp_path, LIBRARIES)
    no_way: dict[str, Any] | Failure = Failure("connect_failed", "no way") if host == "unreachable" else bad
    World(monkeypatch, bad, no_way)
    with pytest.raises(Failure) as caught:
        await npu_probe(ProbeRequest(), ctx)
    assert (caught.value.code, caught.value.layer) == ("driver_libs_missing", "device")
    assert caught.value.hint
    assert caught.value.fields["free"] == []
    assert caught.value.fields["probed_on"] == "endpoint"
    assert ctx.warnings


@pytest.mark.asyncio
@pytest.mark.parametrize("case", ["no container", "not its fault"])
async def test_the_host_is_asked_only_for_what_is_wrong_with_a_container(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, good: dict[str, Any], ctx: Context, case: str
) -> None:
    cut = failed(tmp_path, LIBRARIES if case == "no container" else info("classic", chips("classic"))[:-300])
    world = World(monkeypatch, cut, good)
    if case == "no container":
        world.config = CONTAINER.model_copy(update={"container": None})
    with pytest.raises(Failure):
        await npu_probe(ProbeRequest(), ctx)
    assert world.asked == []


@pytest.mark.asyncio
async def test_a_tool_call_has_no_standard_input(tmp_path: Path) -> None:
    ctx = Context(tmp_path, Resources(), wait_s=45.0)
    with pytest.raises(Refused, match="no standard input"):
        await npu_probe(ProbeRequest(from_file="-"), ctx)

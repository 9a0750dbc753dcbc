"""Which container a name means is asked on this machine too, and nothing falls back to the host."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.containers import inspect_argv, local_id, running_id
from vaws_mcp.endpoint.models import EndpointConfig, EndpointRequest


def put_docker(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def config(name: str = "box") -> EndpointConfig:
    return EndpointConfig(name="inside", container=name)


@pytest.mark.asyncio
async def test_a_running_container_is_entered_by_its_full_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_docker(tmp_path, monkeypatch, 'printf "%s|" "$@" > "$0.args"; echo "0123abcd true"')
    assert await local_id(config(), "box") == "0123abcd"
    assert (tmp_path / "docker.args").read_text() == "".join(f"{word}|" for word in inspect_argv("docker", "box")[1:])


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo '0123abcd false'", "it is not running"),
        ("echo 'no such container: box' >&2; exit 1", "no such container: box"),
        ("exit 1", "no such container"),
        ("echo one two three", "one two three"),
    ],
)
@pytest.mark.asyncio
async def test_a_container_that_cannot_be_used_is_named(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_docker(tmp_path, monkeypatch, script)
    with pytest.raises(Failure) as caught:
        await local_id(config(), "box")
    assert caught.value.code == "container_unusable"
    assert "'box'" in caught.value.message
    assert said in caught.value.message


@pytest.mark.asyncio
async def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Failure) as caught:
        await local_id(config(), "box")
    assert caught.value.code == "container_unusable"
    assert "docker cannot be run" in caught.value.message


@pytest.mark.asyncio
async def test_a_program_that_hangs_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_docker(tmp_path, monkeypatch, "exec sleep 60")
    monkeypatch.setattr("vaws_mcp.endpoint.containers.INSPECT_TIMEOUT_S", 0.2)
    with pytest.raises(Failure, match="did not answer"):
        await local_id(config(), "box")


def test_an_answer_cut_short_is_no_container() -> None:
    with pytest.raises(Failure, match="no such container"):
        running_id("box", "here", None, "", "")


@pytest.mark.parametrize("name", ["-l", "--latest", "", "a b", "a;id", "$(id)", "../x", "a\n"])
def test_a_name_that_is_no_containers_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="container"):
        config(name)
    with pytest.raises(ValidationError, match="container"):
        EndpointRequest(container=name)

"""From arguments to an entry of endpoints.toml, and the operations that contact nobody."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Failure, Refused
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import load_endpoints, save_endpoint
from vaws_mcp.npu.machines.entry import check_replace, entry_of, entry_text
from vaws_mcp.npu.machines.models import (
    MachineAddRequest,
    MachineListRequest,
    MachineListResult,
    MachineRemoveRequest,
    MachineRemoveResult,
)
from vaws_mcp.npu.machines.operations import machine_list, machine_remove
from vaws_mcp.taskstore.records import Sources
from vaws_mcp.taskstore.tasks import create_task


def test_a_destination_is_taken_apart_and_only_what_was_given_is_stored() -> None:
    config = entry_of(MachineAddRequest(name="box", host="root@10.0.0.1:2222", container="vllm", env_files=("/e.sh",)))
    assert tomllib.loads(entry_text(config)) == {
        "box": {"host": "10.0.0.1", "port": 2222, "user": "root", "container": "vllm", "env_files": ["/e.sh"]}
    }


def test_a_container_of_this_machine_needs_no_host() -> None:
    assert entry_of(MachineAddRequest(name="box", container="vllm", runtime="podman")).is_local


def test_port_and_user_may_stand_beside_the_host() -> None:
    config = entry_of(MachineAddRequest(name="box", host="root@h", port=23, user="root"))
    assert (config.host, config.port, config.user) == ("h", 23, "root")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "local", "host": "h"}, "machine_reserved"),
        ({"name": "box", "host": "root@h:22", "port": 23}, "machine_malformed"),
        ({"name": "box", "host": "root@h", "user": "me"}, "machine_malformed"),
        ({"name": "box", "port": 22}, "machine_malformed"),
        ({"name": "box", "host": "h", "lease_dir": "relative"}, "machine_malformed"),
        ({"name": "box", "host": "h", "deny_commands": ["("]}, "machine_malformed"),
        ({"name": "box", "host": "h:99999"}, "endpoint_malformed"),
        ({"name": "box", "host": "-oProxyCommand=x y"}, "endpoint_malformed"),
    ],
)
def test_what_cannot_be_a_machine_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(Refused) as caught:
        entry_of(MachineAddRequest.model_validate(fields))
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)


@pytest.mark.parametrize("name", ["", "a b", "-x", "a@b", "a:b", "../x"])
def test_a_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(ValidationError):
        MachineAddRequest(name=name, host="h")


def test_an_entry_is_replaced_only_when_asked_and_repeated_freely() -> None:
    known = {"box": EndpointConfig(name="box", host="h")}
    check_replace(EndpointConfig(name="box", host="h"), known, replace=False)
    check_replace(EndpointConfig(name="new", host="h"), known, replace=False)
    check_replace(EndpointConfig(name="box", host="g"), known, replace=True)
    with pytest.raises(Refused, match="already"):
        check_replace(EndpointConfig(name="box", host="g"), known, replace=False)


@pytest.mark.asyncio
async def test_a_machine_in_use_is_removed_only_by_force_and_its_entry_is_handed_back(tmp_path: Path) -> None:
    config = EndpointConfig(name="box", host="h", port=22)
    save_endpoint(tmp_path, config)
    task = create_task(tmp_path, "work", "box", Sources())
    async with Resources() as resources:
        ctx = Context(tmp_path, resources, effect="destroy")
        listed = await machine_list(MachineListRequest(), ctx)
        assert isinstance(listed, MachineListResult)
        assert {machine.machine: machine.used_by for machine in listed.machines} == {"local": [], "box": [task.task_id]}
        with pytest.raises(Failure) as caught:
            await machine_remove(MachineRemoveRequest(name="box"), ctx)
        assert caught.value.code == "machine_in_use"
        assert "box" in load_endpoints(tmp_path)
        removed = await machine_remove(MachineRemoveRequest(name="box", force=True), ctx)
    assert isinstance(removed, MachineRemoveResult)
    assert removed.used_by == [task.task_id]
    assert tomllib.loads(removed.entry) == {"box": {"host": "h", "port": 22}}
    assert "box" not in load_endpoints(tmp_path)

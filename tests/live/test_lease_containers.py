"""Two containers on one machine want the same device: it has one holder, and how far that is proven is told."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import podman
import pytest

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.sim.devices import list_devices
from vaws_mcp.sim.npu_smi import id_map, info_table

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

PROJECT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("VAWS_LEASE_ROUNDS", "100"))
WAIT_S = 30.0
Answer = dict[str, Any]


@contextlib.contextmanager
def two_containers(network: str, volumes: list[Path]) -> Generator[list[str]]:
    if not podman.can_run():
        pytest.skip(podman.PODMAN_MISSING)
    with contextlib.ExitStack() as stack:
        try:
            names = [stack.enter_context(podman.running_container(network, volumes)) for _ in range(2)]
        except podman.PodmanError as error:
            pytest.skip(f"this machine does not let podman start a container: {error}")
        yield names


def machine(folder: Path) -> Path:
    """Write an npu-smi that shows four free devices, and the file that puts it on the path."""
    devices = list_devices(str(folder), 4, "a2")
    (folder / "info.txt").write_text("\n".join(info_table(devices, "a2")) + "\n")
    (folder / "map.txt").write_text("\n".join(id_map(devices, "a2")) + "\n")
    program = folder / "npu-smi"
    program.write_text(f'#!/bin/sh\ncase "$*" in info) cat {folder}/info.txt ;; *) cat {folder}/map.txt ;; esac\n')
    program.chmod(0o755)
    (folder / "env.sh").write_text(f"export PATH={folder}:$PATH\n")
    return folder


class Box:
    """The executions of one container."""

    def __init__(self, endpoint: Endpoint, shared: Path, lease_dir: Path) -> None:
        self._endpoint = endpoint
        self._shared = shared
        self._lease_dir = lease_dir

    async def call(self, method: str, **params: Any) -> Answer:
        return (await self._endpoint.call(method, params, deadline_s=WAIT_S)).result

    async def submit(self, name: str) -> Answer:
        spec = {
            "schema": 1,
            "execution_id": name,
            "task_id": "t",
            "owner": f"{name}@lap",
            "argv": ["sleep", "300"],
            "devices": {"ids": ["0"]},
            "env_spec": {"env_files": [str(self._shared / "env.sh")]},
            "lease_dir": str(self._lease_dir),
            "stop": {"int_s": 0.2, "term_s": 0.2, "kill_s": 5},
        }
        return (await self.call("execution.submit", spec=spec))["status"]

    async def wait(self, name: str) -> Answer:
        found = await self.call("execution.wait", execution_id=name, until="running", timeout_s=20)
        assert found["reached"], found
        return found

    async def queued(self, name: str) -> Answer:
        with anyio.fail_after(WAIT_S):
            while True:
                found = await self.call("execution.status", execution_id=name)
                assert found["state"] == "queued", found
                if found["queue"] and found["queue"]["waiting_for"]:
                    return found

    async def stop(self, name: str) -> Answer:
        return await self.call("execution.stop", execution_id=name, reason="test")


@asynccontextmanager
async def boxes(folder: Path, names: list[str], shared: Path, lease_dir: Path) -> AsyncGenerator[list[Box]]:
    async with Resources() as resources:
        ctx = Context(state_dir=folder, resources=resources, wait_s=45.0)
        found: list[Box] = []
        for number, name in enumerate(names):
            config = EndpointConfig.model_validate({"name": f"box{number}", "container": name, "runtime": "podman"})
            found.append(Box(await connected(ctx, config), shared, lease_dir))
        yield found


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    return machine(folder)


@pytest.fixture
def lease_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "leases"
    folder.mkdir()
    return folder


@pytest.mark.asyncio
@pytest.mark.parametrize("with_directory", [True, False])
async def test_on_the_hosts_network_one_holds_and_the_other_waits(
    with_directory: bool, tmp_path: Path, shared: Path, lease_dir: Path
) -> None:
    volumes = [shared, lease_dir] if with_directory else [shared]
    with two_containers("host", volumes) as names:
        async with boxes(tmp_path, names, shared, lease_dir) as (one, other):
            await one.submit("e-1")
            first = await one.wait("e-1")
            await other.submit("e-2")
            waiting = await other.queued("e-2")
            assert {first["lease_scope"], waiting["lease_scope"]} == {"host"}
            assert ("is shared" in first["lease_scope_why"]) is with_directory
            holder = waiting["queue"]["waiting_for"][0]["holder"]
            assert holder["execution_id"] == "e-1"
            assert ("owner" in holder) is with_directory
            assert (await one.stop("e-1"))["resources_released"] is True
            await other.wait("e-2")
            await other.stop("e-2")


@pytest.mark.asyncio
@pytest.mark.parametrize("with_directory", [True, False])
async def test_on_private_networks_the_scope_is_only_the_container(
    with_directory: bool, tmp_path: Path, shared: Path, lease_dir: Path
) -> None:
    volumes = [shared, lease_dir] if with_directory else [shared]
    with two_containers("none", volumes) as names:
        async with boxes(tmp_path, names, shared, lease_dir) as (one, other):
            await one.submit("e-1")
            first = await one.wait("e-1")
            assert first["lease_scope"] == "container"
            reach = "only those who share it" if with_directory else "only this container"
            assert reach in first["lease_scope_why"]
            await other.submit("e-2")
            if with_directory:
                assert (await other.queued("e-2"))["queue"]["waiting_for"][0]["holder"]["owner"] == "e-1@lap"
                await one.stop("e-1")
            await other.wait("e-2")  # with neither of the two nothing can exclude, and that was said
            await other.stop("e-2")


@pytest.mark.parametrize("with_directory", [True, False])
def test_the_protocol_holds_across_containers(with_directory: bool, tmp_path: Path, lease_dir: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    own = PROJECT / "tests" / "unit" / "worker"
    seconds = max(40.0, ROUNDS * 0.5)
    words = [str(logs), str(lease_dir), uuid.uuid4().hex, "4", str(ROUNDS), str(seconds)]
    volumes = [PROJECT, logs, lease_dir] if with_directory else [PROJECT, logs]
    with two_containers("host", volumes) as names:
        programs = [
            subprocess.Popen(
                [
                    "podman",
                    "exec",
                    "-i",
                    name,
                    "/usr/bin/python3",
                    "-B",
                    str(own / "lease_rounds.py"),
                    *words,
                    str(seed),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for seed, name in enumerate(names)
        ]
        said = [running.communicate(timeout=seconds + 60) for running in programs]
    assert [(ended.returncode, errors) for ended, (_, errors) in zip(programs, said, strict=True)] == [(0, b"")] * 2
    judge = [sys.executable, str(own / "lease_judge.py"), str(logs)]
    found = json.loads(subprocess.run(judge, capture_output=True, check=True, timeout=120).stdout)
    print(f"{found['holds']} holds, {found['kills']} kills")
    assert found["holds"] >= 2 * ROUNDS
    assert (found["doubles"], found["troubles"]) == ([], [])
    if with_directory:
        assert found["inversions"] == []

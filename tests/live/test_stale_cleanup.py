"""Stale cleanup on real software: what a killed `vllm serve` leaves is ended, and everything beside it survives."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import processes
import pytest
import sshd
import vllm_recipe
from install_vllm import Environment
from processes import Process

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.endpoint.connect import connected
from vaws_mcp.endpoint.resolve import lookup

pytestmark = pytest.mark.live

DECOY = """
import os, sys, time
import setproctitle
if "nobody" in sys.argv:
    os.setgid(65534)
    os.setuid(65534)
setproctitle.setproctitle("VLLM::EngineCore")
end = time.monotonic() + 500
while time.monotonic() < end:
    time.sleep(0.5)
"""


def until(look: Callable[[], bool], seconds: float, what: str) -> None:
    end, pause = time.monotonic() + seconds, 0.05
    while not look():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{vllm_recipe.HOST}:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def family(server: subprocess.Popen[bytes]) -> list[Process]:
    """The engine and the workers of a server, which is the leader of their session."""
    return [one for one in processes.session_members(server.pid) if one.comm.startswith("VLLM::")]


@contextlib.contextmanager
def started(argv: list[str], env: dict[str, str], log: Path) -> Generator[subprocess.Popen[bytes]]:
    """Start a command in a session of its own, and end that session afterwards."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield process
    finally:
        members = processes.session_members(process.pid)
        left = processes.end(members, 10.0)
        process.wait(10)
        assert left == []


def remote_dev(state_dir: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "vaws_mcp", *words],
        env={**os.environ, "VAWS_STATE_DIR": str(state_dir)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    answer = json.loads(done.stdout)
    assert done.returncode == 0, answer
    return answer


def write_endpoint(state_dir: Path, server: sshd.Sshd) -> None:
    state_dir.mkdir(parents=True)
    lines = [
        "[real]",
        f'host = "{server.host}"',
        f"port = {server.port}",
        f'user = "{server.user}"',
        f'identity_file = "{server.identity_file}"',
        f'known_hosts = "{server.known_hosts}"',
    ]
    (state_dir / "endpoints.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


async def ask(state_dir: Path, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Call the endpoint's worker directly."""
    async with Resources() as resources:
        endpoint = await connected(Context(state_dir, resources), lookup(state_dir, "real"))
        return (await endpoint.call(method, params)).result


def decoy_spec(execution_id: str) -> dict[str, Any]:
    argv = [sys.executable, "-c", DECOY]
    return {"schema": 1, "execution_id": execution_id, "task_id": "live", "argv": argv, "devices": "none"}


def pids(entries: list[dict[str, Any]]) -> set[int]:
    return {entry["pid"] for entry in entries}


@pytest.mark.asyncio
@pytest.mark.timeout(600)
async def test_what_a_killed_server_leaves_is_ended_and_everything_else_survives(
    tmp_path: Path, vllm_environment: Environment
) -> None:
    if sshd.sshd_path() is None:
        pytest.skip(sshd.SSHD_MISSING)
    # The mark keeps the cleanup to the processes of this test: others of the machine may have leftovers of their own.
    mark = f"live-{os.getpid()}-{os.urandom(4).hex()}"
    env = {**os.environ, **vllm_recipe.variables(vllm_environment), "VAWS_SIM_MARKER": mark, "SPT_NOENV": "1"}
    state_dir, ports = tmp_path / ".vaws-local", [sshd.free_port() for _ in range(2)]
    execution_id = f"execution-{mark}"
    with contextlib.ExitStack() as stack:
        ssh = stack.enter_context(sshd.running_sshd(tmp_path / "sshd", [f"SetEnv VAWS_SIM_MARKER={mark}"]))
        write_endpoint(state_dir, ssh)
        killed, kept = (
            stack.enter_context(
                started(vllm_recipe.serve_argv(vllm_environment, port), env, tmp_path / f"serve-{port}.log")
            )
            for port in ports
        )
        for port in ports:
            until(lambda port=port: healthy(port), vllm_recipe.READY_TIMEOUT_S, f"the server on port {port} is ready")
        decoy = [sys.executable, "-c", DECOY]
        users = [[*decoy, "nobody"]] if os.geteuid() == 0 else []
        foreign = [stack.enter_context(started(argv, env, tmp_path / "decoy.log")) for argv in users]
        for one in foreign:
            until(lambda one=one: bool(family(one)), 20, "the other user's process has its title")
        submitted = await ask(state_dir, "execution.submit", {"spec": decoy_spec(execution_id)})
        root = submitted["status"]["root"]["pid"]

        def root_titled() -> bool:
            found = processes.read_process(root)
            return found is not None and found.comm.startswith("VLLM::")

        until(root_titled, 20, "the process of the execution has its title")

        stale, live = family(killed), family(kept)
        assert {one.comm for one in stale} == {"VLLM::EngineCor", "VLLM::Worker"}
        assert len(live) == 2
        before = remote_dev(state_dir, "stale-cleanup", "--endpoint", "real")
        assert before["matched"] == []

        os.kill(killed.pid, signal.SIGKILL)
        killed.wait(10)
        assert all(map(processes.is_alive, stale))
        dry = remote_dev(state_dir, "stale-cleanup", "--endpoint", "real")
        assert (dry["status"], pids(dry["matched"])) == ("dry_run", {one.pid for one in stale})
        assert all(map(processes.is_alive, stale))

        begin = time.monotonic()
        done = remote_dev(state_dir, "stale-cleanup", "--endpoint", "real", "--apply")
        taken = time.monotonic() - begin
        assert pids(done["killed"]) == pids(done["matched"]) == {one.pid for one in stale}
        assert done["surviving"] == []
        assert not any(map(processes.is_alive, stale))
        assert taken < 25
        reasons = {entry["pid"]: (entry["test"], entry["reason"]) for entry in done["spared"]}
        assert {pid for pid in reasons if reasons[pid][0] == 4} >= {one.pid for one in live}
        assert reasons[root] == (3, f"it carries the mark of live execution {execution_id}")
        assert [reasons[one.pid][0] for one in foreign] == [5] * len(foreign)

        survivors = [*(one.pid for one in live), kept.pid, ssh.pid, root, *(one.pid for one in foreign)]
        for pid in survivors:
            found = processes.read_process(pid)
            assert found is not None
            assert found.state not in "ZX"
        assert healthy(ports[1])
        again = remote_dev(state_dir, "stale-cleanup", "--endpoint", "real", "--apply")
        assert again["matched"] == []
        stopped = await ask(state_dir, "execution.stop", {"execution_id": execution_id})
        assert stopped["state"] == "exited"

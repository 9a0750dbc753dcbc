"""Endpoints to connect to in tests, and ways to talk to them as a caller does."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.live import processes, sshd
from vaws_mcp import sim
from vaws_mcp.catalog import BY_NAME
from vaws_mcp.cli.commands import run_command
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint

KINDS = ("sshd", "sim", "local")
Answer = dict[str, Any]


def make_home(patch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Make a home directory and let everything in this process take it for the user's."""
    (folder / ".ssh").mkdir(parents=True, exist_ok=True)
    patch.setenv("HOME", str(folder))
    for name in ("SSH_AUTH_SOCK", "VAWS_CONTEXT_FILE", "VAWS_STATE_DIR"):
        patch.delenv(name, raising=False)
    return folder


@dataclass(frozen=True)
class Server:
    """A running OpenSSH server; ``remote_home`` is the home directory of those who log in."""

    facts: sshd.Sshd
    remote_home: Path
    home: Path

    @property
    def destination(self) -> str:
        return f"{self.facts.user}@{self.facts.host}:{self.facts.port}"

    @property
    def flags(self) -> list[str]:
        """The options that reach it from the command line."""
        return ["--endpoint", self.destination, "--identity-file", str(self.facts.identity_file)]

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.facts.log.parent / "host_key.pub")

    def know(self) -> None:
        """Put the host key into the user's known hosts."""
        with (self.home / ".ssh" / "known_hosts").open("a") as file:
            file.write(self.facts.known_hosts.read_text())

    def register(self, state_dir: Path, **fields: Any) -> None:
        """Name it ``box`` in endpoints.toml."""
        facts = self.facts
        own = {"host": facts.host, "port": facts.port, "user": facts.user, "identity_file": str(facts.identity_file)}
        config = {"name": "box", **own, "known_hosts": str(facts.known_hosts), **fields}
        save_endpoint(state_dir, EndpointConfig.model_validate(config))

    def kill_connections(self) -> None:
        """End the processes that serve connections, as a crash would; the server itself goes on."""
        connections = processes.children(self.facts.pid)
        assert connections
        for process in connections:
            processes.send(process, processes.signal.SIGKILL)
        assert not processes.wait_gone(connections, 5)

    @contextmanager
    def freeze_connections(self) -> Generator[None]:
        """Stop the processes that serve connections, as a host that hangs does; at the end they go on."""
        connections = processes.children(self.facts.pid)
        assert connections
        for process in connections:
            processes.send(process, processes.signal.SIGSTOP)
        try:
            yield
        finally:
            for process in connections:
                processes.send(process, processes.signal.SIGCONT)


def fingerprint_of(public_key: Path) -> str:
    import asyncssh

    return asyncssh.read_public_key(public_key).get_fingerprint()


@contextmanager
def open_server(folder: Path, home: Path, options: tuple[str, ...] = (), **variables: str) -> Generator[Server]:
    """Run a server whose sessions start with these variables; without one installed the test is skipped."""
    if sshd.sshd_path() is None:
        pytest.skip(sshd.SSHD_MISSING)
    remote_home = folder / "remote-home"
    remote_home.mkdir(parents=True)
    words = " ".join(f"{name}={value}" for name, value in {"HOME": str(remote_home), **variables}.items())
    with sshd.running_sshd(folder / "sshd", [f"SetEnv {words}", *options]) as facts:
        yield Server(facts, remote_home, home)


@dataclass(frozen=True)
class Place:
    """An endpoint that is registered under its kind; ``files`` is a directory that exists there."""

    kind: str
    state_dir: Path
    files: Path

    def open(self) -> contextlib.AbstractAsyncContextManager[Box]:
        return open_box(self.state_dir, self.kind)


class Box:
    """A caller that keeps its connections between calls."""

    def __init__(self, ctx: Context, endpoint: str) -> None:
        self.ctx = ctx
        self.endpoint = endpoint

    async def call(self, name: str, **arguments: Any) -> Answer:
        return await invoke(BY_NAME[name], {"endpoint": self.endpoint, **arguments}, self.ctx)

    async def bash(self, command: str, **arguments: Any) -> Answer:
        return await self.call("remote_bash", command=command, **arguments)


@asynccontextmanager
async def open_box(state_dir: Path, endpoint: str) -> AsyncGenerator[Box]:
    async with Resources() as resources:
        yield Box(Context(state_dir=state_dir, resources=resources), endpoint)


@contextmanager
def open_place(kind: str, folder: Path, home: Path) -> Generator[Place]:
    state_dir, files = folder / ".vaws-local", folder / "files"
    files.mkdir()
    place = Place(kind, state_dir, files)
    if kind == "local":
        yield place
    elif kind == "sim":
        facts = sim.start_detached(sim.SimOptions(), state_dir)
        known = {name: facts[name] for name in ("host", "port", "user", "identity_file", "known_hosts", "python")}
        save_endpoint(state_dir, EndpointConfig(name="sim", **known))
        try:
            yield place
        finally:
            assert sim.stop(state_dir)["stopped"]
    else:
        with open_server(folder / "server", home) as server:
            server.register(state_dir, name="sshd")
            yield place


def remote_dev(capture: pytest.CaptureFixture[str], *words: str) -> tuple[int, Answer]:
    """Give a command and return its exit code and its answer, which is all there is on standard output."""
    capture.readouterr()
    code = run_command(words)
    return code, json.loads(capture.readouterr().out)


async def until(condition: Callable[[], bool], what: str, seconds: float = 10) -> None:
    """Wait until something holds."""
    with anyio.move_on_after(seconds):
        while not condition():  # noqa: ASYNC110 - other processes set no events of ours
            await anyio.sleep(0.02)
        return
    pytest.fail(f"not within {seconds} s: {what}")


def lives(pid: int) -> bool:
    """Say whether a process with this pid is there and no zombie."""
    process = processes.read_process(pid)
    return process is not None and process.state not in "ZX"

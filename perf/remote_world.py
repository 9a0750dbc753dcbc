"""What both sides of `remote.py` run against: an SSH server of its own, clean homes, and a proxy that delays."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
# The OpenSSH server is started by the code of the live tests, which names its own neighbours plainly.
sys.path += [str(PROJECT), str(PROJECT / "tests" / "live")]

from mcp import Client, StdioServerParameters  # noqa: E402

from tests.live import processes, sshd  # noqa: E402
from vaws_mcp.catalog import BY_NAME  # noqa: E402
from vaws_mcp.core.context import Context, Resources  # noqa: E402
from vaws_mcp.dispatch.invoke import invoke  # noqa: E402
from vaws_mcp.endpoint.models import EndpointConfig  # noqa: E402
from vaws_mcp.endpoint.registry import save_endpoint  # noqa: E402

DELAY_MS = 10.0
PROGRAM_TIMEOUT_S = 600.0
Answer = dict[str, Any]


class MeasureError(Exception):
    """A call or a program did not do what was measured."""


@dataclass
class Ssh:
    """The OpenSSH client with the keys of one server.

    ``master`` is the socket of a warm connection, if any; without ``cipher`` the client chooses.
    """

    server: sshd.Sshd
    port: int
    known_hosts: Path
    env: dict[str, str]
    cipher: str | None
    master: Path | None = None

    @property
    def options(self) -> list[str]:
        """What `ssh` and `scp` share."""
        values = {
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "none",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            **({"Ciphers": self.cipher} if self.cipher else {}),
            **({"ControlPath": str(self.master)} if self.master else {}),
        }
        words = [word for name, value in values.items() for word in ("-o", f"{name}={value}")]
        return ["-F", "none", "-i", str(self.server.identity_file), *words]

    @property
    def place(self) -> str:
        """User and host."""
        return f"{self.server.user}@{self.server.host}"

    def argv(self, *command: str) -> list[str]:
        """Return a call of `ssh`."""
        return ["ssh", *self.options, "-p", str(self.port), self.place, *command]

    def scp(self, *words: str) -> list[str]:
        """Return a call of `scp`; ``:path`` stands for a path on the server."""
        named = [f"{self.place}{word}" if word.startswith(":") else word for word in words]
        return ["scp", "-q", *self.options, "-P", str(self.port), *named]

    def rsync(self, *words: str) -> list[str]:
        """Return a call of `rsync -a`; ``:path`` stands for a path on the server."""
        named = [f"{self.place}{word}" if word.startswith(":") else word for word in words]
        return ["rsync", "-a", "-e", " ".join(["ssh", *self.options, "-p", str(self.port)]), *named]

    async def run(self, argv: list[str], accepted: tuple[int, ...] = (0,), **streams: Any) -> bytes:
        """Run a program as a person would and return its output.

        Raises: MeasureError when it fails.
        """
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **streams}
        done = subprocess.run(  # noqa: ASYNC221 - nothing else happens meanwhile, and nothing may
            argv, env=self.env, stderr=subprocess.PIPE, timeout=PROGRAM_TIMEOUT_S, check=False, **streams
        )
        if done.returncode not in accepted:
            raise MeasureError(f"{argv[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
        return done.stdout or b""


class Caller:
    """Calls operations in this process, on one endpoint and over one connection."""

    def __init__(self, state_dir: Path, resources: Resources) -> None:
        self._state_dir = state_dir
        self._resources = resources

    async def call(self, name: str, **arguments: Any) -> Answer:
        """Return the answer of a call that succeeded.

        Raises: MeasureError.
        """
        ctx = Context(state_dir=self._state_dir, resources=self._resources, wait_s=PROGRAM_TIMEOUT_S)
        return checked(name, await invoke(BY_NAME[name], arguments, ctx))


class McpCaller:
    """Calls tools of a server process with the official client."""

    def __init__(self, client: Client, pid: int) -> None:
        self._client = client
        self.pid = pid

    async def call(self, name: str, **arguments: Any) -> Answer:
        """Return the answer of a call that succeeded.

        Raises: MeasureError.
        """
        result = await self._client.call_tool(name, arguments)
        return checked(name, json.loads(getattr(result.content[0], "text", "")))


def checked(name: str, answer: Answer) -> Answer:
    """Return the answer when it says success.

    Raises: MeasureError.
    """
    if answer["outcome"] != "success" or answer.get("exit_code", 0) != 0:
        raise MeasureError(f"{name}: {answer.get('error') or answer['summary']}")
    return answer


@dataclass
class World:
    """The server, the clients' homes and the places for data. ``quick`` asks for fewer samples."""

    folder: Path
    bulk: Path
    state_dir: Path
    ssh: Ssh
    cold: Ssh
    quick: bool

    def count(self, full: int, quick: int) -> int:
        """Return the number of samples."""
        return quick if self.quick else full

    @asynccontextmanager
    async def in_process(self) -> AsyncGenerator[Caller]:
        """Give a caller of this process, with connections of its own."""
        async with Resources() as resources:
            yield Caller(self.state_dir, resources)

    @asynccontextmanager
    async def over_mcp(self) -> AsyncGenerator[McpCaller]:
        """Start a server and give a caller that is past `initialize`."""
        before = {process.pid for process in processes.children(os.getpid())}
        env = {**self.ssh.env, "VAWS_STATE_DIR": str(self.state_dir)}
        server = StdioServerParameters(command=sys.executable, args=["-m", "vaws_mcp", "mcp"], env=env)
        async with Client(server, read_timeout_seconds=PROGRAM_TIMEOUT_S) as client:
            new = {process.pid for process in processes.children(os.getpid())} - before
            yield McpCaller(client, min(new))

    def register(self, name: str, server: sshd.Sshd, port: int) -> None:
        """Name an endpoint."""
        facts = {"host": server.host, "port": port, "user": server.user, "known_hosts": str(self.ssh.known_hosts)}
        config = {"name": name, **facts, "identity_file": str(server.identity_file)}
        save_endpoint(self.state_dir, EndpointConfig.model_validate(config))

    def know(self, server: sshd.Sshd, port: int) -> None:
        """Let the clients trust the server on a port."""
        key = (server.log.parent / "host_key.pub").read_text("utf-8")
        with self.ssh.known_hosts.open("a", encoding="utf-8") as file:
            file.write(f"[{server.host}]:{port} {key}")

    @contextmanager
    def delayed(self) -> Generator[None]:
        """Name an endpoint `far` that answers 20 ms later."""
        with delay_proxy(self.ssh.server.host, self.ssh.server.port, DELAY_MS) as port:
            self.know(self.ssh.server, port)
            self.register("far", self.ssh.server, port)
            yield

    @contextmanager
    def without_rg(self) -> Generator[None]:
        """Name an endpoint `bare` where `rg` is not on the path."""
        tools = self.folder / "bare-tools"
        tools.mkdir()
        for program in (*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()):
            if program.name != "rg" and not (tools / program.name).is_symlink():
                (tools / program.name).symlink_to(program)
        home = self.folder / "bare-home"
        home.mkdir()
        with sshd.running_sshd(self.folder / "bare-sshd", [f"SetEnv HOME={home} PATH={tools}"]) as server:
            self.know(server, server.port)
            self.register("bare", server, server.port)
            yield


@contextmanager
def open_world(*, quick: bool, cipher: str | None) -> Generator[World]:
    """Make everything, and remove it at the end. ``cipher`` is that of `ssh`, `scp` and `rsync`.

    Raises: sshd.SshdError.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vaws-perf-")))
        memory = Path("/dev/shm")  # noqa: S108 - the directory is private
        bulk = tempfile.TemporaryDirectory(prefix="vaws-perf-", dir=memory if memory.is_dir() else None)
        home, remote_home = folder / "home", folder / "remote-home"
        (home / ".ssh").mkdir(parents=True)
        remote_home.mkdir()
        keep = ("PATH", "LANG", "LC_ALL", "TERM")
        env = {"HOME": str(home), **{name: os.environ[name] for name in keep if name in os.environ}}
        os.environ.update(HOME=str(home))
        for name in ("SSH_AUTH_SOCK", "VAWS_STATE_DIR", "VAWS_CONTEXT_FILE"):
            os.environ.pop(name, None)
        server = stack.enter_context(sshd.running_sshd(folder / "sshd", [f"SetEnv HOME={remote_home}"]))
        cold = Ssh(server, server.port, server.known_hosts, env, cipher)
        warm = Ssh(server, server.port, server.known_hosts, env, cipher, folder / "master")
        world = World(folder, Path(stack.enter_context(bulk)), folder / ".vaws-local", warm, cold, quick)
        world.register("near", server, server.port)
        stack.enter_context(master(warm))
        yield world


@contextmanager
def master(ssh: Ssh) -> Generator[None]:
    """Keep a ControlMaster connection."""
    start = ssh.argv()
    subprocess.run([*start[:-1], "-M", "-N", "-f", "-o", "ControlPersist=yes", start[-1]], env=ssh.env, check=True)
    try:
        yield
    finally:
        subprocess.run([*start[:-1], "-O", "exit", start[-1]], env=ssh.env, check=False, capture_output=True)


@contextmanager
def delay_proxy(host: str, port: int, delay_ms: float) -> Generator[int]:
    """Run the proxy in a process of its own and give its port."""
    argv = [sys.executable, str(Path(__file__).with_name("delay_proxy.py")), host, str(port), str(delay_ms)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def echo_round_trip_ms(samples: int) -> tuple[float, float]:
    """Return the medians of a round trip to a plain echo server, directly and through the proxy."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
        threading.Thread(target=_echo, args=(listener, 2), daemon=True).start()
        with delay_proxy("127.0.0.1", port, DELAY_MS) as far:
            direct, delayed = (sorted(_pings(at, samples)) for at in (port, far))
    return direct[samples // 2], delayed[samples // 2]


def _echo(listener: socket.socket, connections: int) -> None:
    for _ in range(connections):
        client, _address = listener.accept()
        with client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := client.recv(4096):
                client.sendall(data)


def _pings(port: int, samples: int) -> list[float]:
    taken: list[float] = []
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(samples):
            begin = time.perf_counter()
            client.sendall(b"x" * 64)
            client.recv(4096)
            taken.append((time.perf_counter() - begin) * 1000)
    return taken


def clear(*paths: Path) -> None:
    """Remove files and trees that may be there."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

"""SSH connections. The one module that knows asyncssh."""

import asyncio
import contextlib
import errno
import getpass
import shlex
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import asyncssh
from asyncssh.constants import MSG_IGNORE

from vaws_mcp.core.failures import Failure
from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.containers import INSPECT_TIMEOUT_S, inspect_argv, running_id
from vaws_mcp.endpoint.failures import connect_failed, container_unusable
from vaws_mcp.endpoint.hostkeys import FILE, HostKeys
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.resolve import parse_destination
from vaws_mcp.endpoint.stream import WorkerStream

CONNECT_TIMEOUT_S = 20.0
KEEPALIVE_S = 5.0
KEEPALIVE_MISSES = 3
ACKNOWLEDGE_EVERY_S = 0.001
WINDOW_BYTES = 16 << 20
PACKET_BYTES = 1 << 17
WRITE_BUFFER_BYTES = 4 << 20
EMPTY_STRING = bytes(4)
CIPHERS = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,aes192-ctr,aes128-ctr"


class _Client(asyncssh.SSHClient):
    def __init__(self, keys: HostKeys) -> None:
        self.keys = keys
        self.reached_at: float | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:  # noqa: ARG002
        self.reached_at = time.perf_counter()

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        return self.keys.judge(host, port, key)


class Hop(NamedTuple):
    """How long reaching one host took: until its port answered, and then for key exchange and authentication."""

    where: str
    tcp_ms: float
    ssh_ms: float


class SshLink:
    """One connection to a host, with the connections to its jump hosts."""

    def __init__(self, where: str, connections: list[asyncssh.SSHClientConnection], pinned: list[str]) -> None:
        self.where = where
        self.connections = connections
        self.pinned = pinned
        self.hops: list[Hop] = []

    @property
    def connection(self) -> asyncssh.SSHClientConnection:
        """The connection to the host itself."""
        return self.connections[-1]

    @property
    def alive(self) -> bool:
        """Whether the connection still stands as far as we know."""
        return not self.connection.is_closed()

    def close(self) -> None:
        """Close the connection and those it leads through."""
        for connection in reversed(self.connections):
            connection.close()


async def connect(config: EndpointConfig, state_dir: Path) -> SshLink:
    """Connect to an endpoint's host, through its jump hosts.

    Raises: Failure with layer transport: ``host_unresolved``, ``port_closed``, ``connect_timeout``, ``auth_failed``,
    ``host_key_unknown``, ``host_key_changed``, ``host_key_revoked`` or ``connect_failed``; with layer local:
    ``identity_unusable`` or ``ssh_config_invalid``. Refused for a malformed jump host.
    """
    link = SshLink(config.address, [], [])
    try:
        jumps = config.jump or _users_options(config).tunnel
        for hop in jumps.split(",") if isinstance(jumps, str) and jumps.lower() != "none" else []:
            await _extend(link, _jump_config(hop.strip(), config), state_dir)
        await _extend(link, config, state_dir)
    except BaseException:
        link.close()
        raise
    return link


def first_host(config: EndpointConfig) -> tuple[str, int] | None:
    """Return host and port that a connection begins with: the first jump host, else the host itself.

    None when a command of ``~/.ssh/config`` makes the connection.
    """
    options = _users_options(config)
    jumps = config.jump or options.tunnel
    if isinstance(jumps, str) and jumps.lower() != "none":
        options = _users_options(_jump_config(jumps.split(",")[0].strip(), config))
    return None if options.proxy_command else (options.host, options.port)


def _host_options(config: EndpointConfig) -> dict[str, Any]:
    options: dict[str, Any] = {"host": config.host}
    if config.port is not None:
        options["port"] = config.port
    if config.user is not None:
        options["username"] = config.user
    if config.identity_file is not None:
        options["client_keys"] = [str(Path(config.identity_file).expanduser())]
    return options


def _users_options(config: EndpointConfig) -> asyncssh.SSHClientConnectionOptions:
    """Return what ``~/.ssh/config`` says about a host; keys are not loaded.

    Raises: Failure ``ssh_config_invalid``.
    """
    options = {**_host_options(config), "client_keys": None}
    try:
        # Made directly, options read the file only when they are told to.
        return asyncssh.SSHClientConnectionOptions(config=(), **options)
    except (OSError, ValueError) as error:
        why = f"~/.ssh/config cannot be used: {one_line(str(error))}"
        hint = "Correct the file."
        raise connect_failed(config.address, why, hint, code="ssh_config_invalid", layer="local") from None


def _jump_config(hop: str, config: EndpointConfig) -> EndpointConfig:
    """Return how to reach a jump host: with the key and the trust of the endpoint behind it."""
    own = {"accept_new": config.accept_new, "known_hosts": config.known_hosts, "identity_file": config.identity_file}
    return parse_destination(hop).model_copy(update=own)


async def _extend(link: SshLink, config: EndpointConfig, state_dir: Path) -> None:
    """Connect to one more host through the last one."""
    options = _host_options(config)
    tunnel = link.connections[-1] if link.connections else None
    keys = HostKeys(config.address, _known_hosts_files(config), state_dir / FILE, config.accept_new)
    client = _Client(keys)
    begin = time.perf_counter()
    try:
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            connection = await asyncssh.connect(
                **options,
                tunnel=tunnel,
                known_hosts=keys.match,
                client_factory=lambda: client,
                encryption_algs=CIPHERS,
                keepalive_interval=KEEPALIVE_S,
                keepalive_count_max=KEEPALIVE_MISSES - 1,  # it gives up at the first request after so many
                compression_algs=None,
            )
    except asyncssh.HostKeyNotVerifiable:
        raise keys.refusal() from None
    except (OSError, asyncssh.Error, ValueError) as error:
        raise explained(config, error) from None
    _leave_out_fillers(connection)
    link.connections.append(connection)
    reached = client.reached_at or begin
    link.hops.append(Hop(config.address, (reached - begin) * 1000, (time.perf_counter() - reached) * 1000))
    if keys.pinned:
        link.pinned.append(f"pinned the host key of {config.address}: {keys.pinned}")


def _leave_out_fillers(connection: Any) -> None:
    """Send no empty packet before every packet.

    The library does, to protect ciphers of the CBC kind, which we do not offer. They cost both ends time.
    """
    send = connection.send_packet

    def send_packet(kind: int, *parts: bytes, **options: Any) -> None:
        if kind != MSG_IGNORE or parts != (EMPTY_STRING,):
            send(kind, *parts, **options)

    connection.send_packet = send_packet


def _known_hosts_files(config: EndpointConfig) -> list[Path]:
    """Return the endpoint's own file, and the user's: what ``~/.ssh/config`` names, else the usual ones."""
    found = _users_options(config).config
    users: Any = found.get("UserKnownHostsFile", ["~/.ssh/known_hosts"])
    everyones: Any = found.get("GlobalKnownHostsFile", ["/etc/ssh/ssh_known_hosts"])
    own = [config.known_hosts] if config.known_hosts else []
    return [Path(name).expanduser() for name in [*own, *users, *everyones]]


def explained(config: EndpointConfig, error: Exception) -> Failure:
    """Turn an error of the SSH library into a failure that names the cause and the next step."""
    code, text, hint = _cause(config, error)
    layer = "local" if code == "identity_unusable" else "transport"
    return connect_failed(config.address, text, hint, code=code, layer=layer)


def _cause(config: EndpointConfig, error: Exception) -> tuple[str, str, str]:
    """Return code, cause and next step."""
    text = one_line(str(error) or type(error).__name__)
    if isinstance(error, TimeoutError):
        hint = "Is the host up, and the network or VPN connected?"
        return "connect_timeout", f"no answer within {CONNECT_TIMEOUT_S:.0f} s", hint
    if isinstance(error, socket.gaierror):
        return "host_unresolved", f"the host name {config.host!r} cannot be resolved", "Check the name."
    if isinstance(error, OSError) and (error.errno == errno.ECONNREFUSED or "Connect call failed" in text):
        closed = f"nothing listens on port {config.port or 22} of {config.host}"
        return "port_closed", closed, "Check host and port; is sshd running there?"
    if isinstance(error, asyncssh.PermissionDenied):
        key = config.identity_file or "the keys of the agent and ~/.ssh"
        refused = f"the host refused user {config.user or getpass.getuser()!r} with {key}"
        hint = "Check user and identity_file; the public key must be in the host's authorized_keys."
        return "auth_failed", refused, hint
    if config.identity_file and isinstance(error, FileNotFoundError | PermissionError | asyncssh.KeyImportError):
        hint = "Check identity_file. A key with a passphrase is used through ssh-agent."
        return "identity_unusable", f"the key {config.identity_file} cannot be used: {text}", hint
    return "connect_failed", text, "Try the same with plain ssh -v."


class _Session(asyncssh.SSHClientSession[bytes]):
    def __init__(self, stream: "SshStream") -> None:
        self.stream = stream

    def data_received(self, data: bytes, datatype: int | None) -> None:
        (self.stream.on_stdout if datatype is None else self.stream.on_stderr)(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.stream.on_end(one_line(str(exc)) if exc else "the channel was closed")

    def pause_writing(self) -> None:
        self.stream.on_writable(writable=False)

    def resume_writing(self) -> None:
        self.stream.on_writable(writable=True)


async def _acknowledge_at_once(connection: Any) -> None:
    """Let the system acknowledge what arrives without its usual delay of 40 ms, until this is cancelled.

    Before a session runs, sshd holds a small packet back until the one before it is acknowledged.
    """
    option: int | None = getattr(socket, "TCP_QUICKACK", None)
    if option is None or getattr(connection, "family", None) not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # the connection may be lost meanwhile
        while True:  # the system forgets it whenever something is sent
            connection.setsockopt(socket.IPPROTO_TCP, option, 1)
            await anyio.sleep(ACKNOWLEDGE_EVERY_S)


class SshStream(WorkerStream):
    """A program on the host whose standard streams are one SSH channel."""

    def __init__(self) -> None:
        super().__init__()
        self._channel_out: asyncssh.SSHClientChannel[bytes] | None = None

    @classmethod
    async def start(cls, link: SshLink, argv: list[str], window: int = WINDOW_BYTES) -> "SshStream":
        """Start a program on the host. At most ``window`` bytes of its output wait here when nobody takes them.

        Raises: Failure with layer transport.
        """
        stream = cls()
        acknowledging = asyncio.create_task(_acknowledge_at_once(link.connection.get_extra_info("socket")))
        try:
            with anyio.fail_after(CONNECT_TIMEOUT_S):
                channel, _session = await link.connection.create_session(
                    lambda: _Session(stream),
                    shlex.join(argv),
                    encoding=None,
                    window=window,
                    max_pktsize=PACKET_BYTES,
                )
        except (OSError, asyncssh.Error) as error:
            raise connect_failed(link.where, one_line(str(error)), "Try the same with plain ssh -v.") from None
        finally:
            acknowledging.cancel()
        channel.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        stream._channel_out = channel
        return stream

    def write_parts(self, parts: list[bytes]) -> None:
        """Queue bytes for the worker."""
        if self._channel_out is not None and not self._channel_out.is_closing():
            self._channel_out.writelines(parts)

    def hold(self, *, held: bool) -> None:
        """Let the window of the channel fill, or empty it."""
        if self._channel_out is not None and held:
            self._channel_out.pause_reading()
        elif self._channel_out is not None:
            self._channel_out.resume_reading()

    def close(self) -> None:
        """Close the worker's standard input; it drains what it started and ends."""
        if self._channel_out is not None and not self._channel_out.is_closing():
            self._channel_out.write_eof()


async def container_id(link: SshLink, runtime: str, name: str) -> str:
    """Return the full id of a running container.

    Raises: Failure ``container_unusable`` when it is missing or stopped.
    """
    command = shlex.join(inspect_argv(runtime, name))
    try:
        with anyio.fail_after(INSPECT_TIMEOUT_S):
            answer = await link.connection.run(command, encoding="utf-8", errors="replace")
    except (OSError, asyncssh.Error) as error:
        raise container_unusable(name, link.where, one_line(str(error))) from None
    return running_id(name, link.where, answer.exit_status, str(answer.stdout or ""), str(answer.stderr or ""))

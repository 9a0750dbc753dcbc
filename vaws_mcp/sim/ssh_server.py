"""The SSH front of the simulated container: key authentication, sessions, and forwarding to loopback."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncssh

from vaws_mcp.sim.ssh_session import Session

WINDOW_BYTES = 16 << 20
PACKET_BYTES = 1 << 17
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes256-ctr")
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Server(asyncssh.SSHServer):
    """Lets in whoever has the key, opens sessions, and forwards to loopback only."""

    def __init__(self, front: "SshFront") -> None:
        self.front = front
        self.connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Keep the connection."""
        self.connection = conn
        self.front.connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        del exc
        if self.connection:
            self.front.connections.discard(self.connection)

    def begin_auth(self, username: str) -> bool:
        """Ask for a key, whatever the name."""
        del username
        return True

    def session_requested(self) -> Any:
        """Open a session with wide windows."""
        if self.connection is None:
            raise RuntimeError("a session without a connection")
        channel: Any = self.connection.create_server_channel(None, "strict", WINDOW_BYTES, PACKET_BYTES)
        return channel, Session(self.front.environment, self.front.workdir)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        """Allow forwarding to this machine's loopback addresses."""
        del dest_port, orig_host, orig_port
        return dest_host in LOOPBACK


class SshFront:
    """The listening server and its open connections."""

    def __init__(self, environment: Mapping[str, str], workdir: Path) -> None:
        self.environment = environment
        self.workdir = workdir
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self.acceptor: asyncssh.SSHAcceptor | None = None

    async def listen(self, host_key: asyncssh.SSHKey, client_key: Path, port: int) -> int:
        """Start to listen on 127.0.0.1, on a free port when it is 0; returns the port.

        Raises: OSError when the port is taken.
        """
        self.acceptor = await asyncssh.listen(
            "127.0.0.1",
            port,
            server_factory=lambda: Server(self),
            server_host_keys=[host_key],
            authorized_client_keys=str(client_key),
            encryption_algs=CIPHERS,
            line_editor=False,
            compression_algs=None,
            password_auth=False,
            kbdint_auth=False,
        )
        return self.acceptor.get_port()

    def close(self) -> None:
        """Close the port and every connection."""
        if self.acceptor:
            self.acceptor.close()
        for connection in list(self.connections):
            connection.abort()

"""Byte streams through an SSH connection: to a port that the host reaches, or to a program on the host."""

import shlex
from typing import Any

import anyio
import anyio.lowlevel
import asyncssh
from anyio.abc import ByteStream
from asyncssh.constants import OPEN_ADMINISTRATIVELY_PROHIBITED

from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.ssh import CONNECT_TIMEOUT_S, SshLink


class SshByteStream(ByteStream):
    """An SSH channel as a byte stream. Both directions wait for the other side, so nothing piles up."""

    def __init__(self, link: SshLink, reader: "asyncssh.SSHReader[bytes]", writer: "asyncssh.SSHWriter[bytes]") -> None:
        self._link = link
        self._reader = reader
        self._writer = writer

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return some bytes.

        Raises: anyio.EndOfStream, anyio.BrokenResourceError.
        """
        try:
            data = await self._reader.read(max_bytes)
        except (OSError, asyncssh.Error) as error:
            raise anyio.BrokenResourceError from error
        if data:
            return data
        if not self._link.alive:
            raise anyio.BrokenResourceError  # a lost connection looks like an end
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        """Send bytes; returns when the channel can take more.

        Raises: anyio.BrokenResourceError.
        """
        try:
            self._writer.write(item)
            await self._writer.drain()
        except (OSError, asyncssh.Error) as error:
            raise anyio.BrokenResourceError from error

    async def send_eof(self) -> None:
        """Say that nothing more will be sent."""
        try:
            self._writer.write_eof()
        except (OSError, asyncssh.Error) as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """Close the channel."""
        self._writer.close()
        await anyio.lowlevel.checkpoint()


async def open_tcp(link: SshLink, host: str, port: int) -> ByteStream:
    """Connect to a port as the host sees it.

    Raises: ConnectionError when nothing answers there, or the SSH connection is lost; PermissionError when the host's
    SSH server forbids forwarding; TimeoutError.
    """
    try:
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            reader, writer = await link.connection.open_connection(host, port, encoding=None)
    except asyncssh.ChannelOpenError as error:
        forbidden = error.code == OPEN_ADMINISTRATIVELY_PROHIBITED
        raise (PermissionError if forbidden else ConnectionError)(one_line(error.reason)) from None
    except asyncssh.Error as error:
        raise ConnectionError(one_line(str(error))) from None
    return SshByteStream(link, reader, writer)


async def open_program(link: SshLink, argv: list[str]) -> ByteStream:
    """Start a program on the host and return its standard input and output; what it writes to stderr is dropped.

    Raises: ConnectionError, TimeoutError.
    """
    options: dict[str, Any] = {"encoding": None, "stderr": asyncssh.DEVNULL}
    try:
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            process = await link.connection.create_process(shlex.join(argv), **options)
    except (asyncssh.Error, OSError) as error:
        raise ConnectionError(one_line(str(error))) from None
    return SshByteStream(link, process.stdout, process.stdin)

"""Copying bytes between two streams until both directions have ended."""

import contextlib
import socket
import struct
from dataclasses import dataclass
from functools import partial

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

CHUNK_BYTES = 1 << 16
CLOSE_BOUND_S = 5.0


@dataclass
class Traffic:
    """Bytes that went through, to the target and from it."""

    up: int = 0
    down: int = 0


async def pump(client: SocketStream, target: ByteStream, traffic: Traffic) -> bool:
    """Copy in both directions; the end of one direction is passed on while the other goes on.

    A chunk is read only when the one before has been taken, so at most one is held in each direction. Both streams are
    closed at the end. Returns: False when one side broke off, and with it the other.
    """
    whole = True

    async def copy(source: ByteStream, sink: ByteStream, *, up: bool) -> None:
        nonlocal whole
        try:
            while True:
                data = await source.receive(CHUNK_BYTES)
                traffic.up += len(data) if up else 0
                traffic.down += 0 if up else len(data)
                await sink.send(data)
        except anyio.EndOfStream:
            await _send_eof(sink)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            whole = False
            group.cancel_scope.cancel()

    done = False
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(copy, client, target, up=True))
            group.start_soon(partial(copy, target, client, up=False))
        done = whole
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLOSE_BOUND_S):
            await target.aclose()
            await (client.aclose() if done else reset(client))
    return whole


async def _send_eof(sink: ByteStream) -> None:
    try:
        await sink.send_eof()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        return  # it has ended in both directions already


async def reset(client: SocketStream) -> None:
    """Close a connection so that its other side cannot take it for a complete answer."""
    raw = client.extra(SocketAttribute.raw_socket)  # noqa: S610 - not a database
    if raw.family != socket.AF_UNIX:
        with contextlib.suppress(OSError):  # it is closed already
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await anyio.aclose_forcefully(client)

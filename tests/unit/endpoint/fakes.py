"""Transports that exist only in memory."""

from __future__ import annotations

from typing import Any

import orjson

from vaws_mcp.endpoint.stream import WorkerStream
from vaws_mcp.worker.wire import HEADER, MAGIC, PROTOCOL, encode


def frame(head: dict[str, Any], body: bytes = b"") -> bytes:
    return b"".join(encode(head, body))


def hello(**facts: Any) -> bytes:
    return MAGIC + frame({"hello": {"protocol": PROTOCOL, "pid": 7, **facts}})


class FakePipe:
    """Keeps what the channel writes."""

    def __init__(self) -> None:
        self.sent: list[tuple[dict[str, Any], bytes]] = []
        self.closed = False

    def write_parts(self, parts: list[bytes]) -> None:
        raw = b"".join(parts)
        head_bytes, _ = HEADER.unpack(raw[: HEADER.size])
        split = HEADER.size + head_bytes
        self.sent.append((orjson.loads(raw[HEADER.size : split]), raw[split:]))

    async def drained(self) -> None:
        return

    def close(self) -> None:
        self.closed = True


class FakeStream(WorkerStream):
    """An endpoint that says what it is told to, piece by piece, and keeps what it is sent."""

    def __init__(self, *pieces: bytes, stderr: bytes = b"", ends: bool = True) -> None:
        super().__init__()
        self.pieces = list(pieces)
        self.ends = ends
        self.sent = b""
        self.closed = False
        self.on_stderr(stderr)

    async def receive(self) -> bytes:
        if self.pieces:
            self.on_stdout(self.pieces.pop(0))
        elif self.ends:
            self.on_end("over")
        return await super().receive()

    def hold(self, *, held: bool) -> None:
        self.held = held

    def write_parts(self, parts: list[bytes]) -> None:
        self.sent += b"".join(parts)

    def close(self) -> None:
        self.closed = True

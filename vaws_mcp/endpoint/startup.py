"""The first bytes of a worker: bootstrap line, archive when asked for, then the hello frame."""

from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.archive import worker_archive
from vaws_mcp.endpoint.failures import worker_failed
from vaws_mcp.worker.wire import HEADER_BYTES, MAGIC, PROTOCOL, FrameError, lengths

BOOT = b"\x00VAWS-BOOT "
MAX_BANNER = 64 << 10


class UnfitPython(Exception):  # noqa: N818 - not an error for the caller: other interpreters are tried first
    """The interpreter that was found is older than 3.8 (``version``), or none was found (None)."""

    def __init__(self, version: str | None) -> None:
        super().__init__(version)
        self.version = version


class Greeter(Protocol):
    """A byte stream at its beginning."""

    async def receive(self) -> bytes:
        """Return some bytes; empty at the end of the stream."""
        ...

    def write_parts(self, parts: list[bytes]) -> None:
        """Send bytes to the endpoint."""
        ...

    def complaint(self) -> str:
        """Return what the endpoint wrote to its standard error so far."""
        ...


@dataclass(frozen=True)
class Hello:
    """What the worker says about itself, and bytes that already belong to the next frames."""

    facts: dict[str, Any]
    rest: bytes
    pushed: bool


async def greet(where: str, stream: Greeter) -> Hello:
    """Bring the worker up: skip what a shell printed, push the archive when needed, read hello.

    Raises: UnfitPython. Failure ``worker_failed`` with what the endpoint said.
    """
    reader = _Reader(where, stream)
    await reader.skip_to(BOOT)
    state, _, version = (await reader.line()).decode("ascii", "replace").partition(" ")
    if state in ("none", "old"):
        raise UnfitPython(version if state == "old" else None)
    if state == "need":
        stream.write_parts([worker_archive()[1]])
    await reader.skip_to(MAGIC)
    facts = await reader.hello()
    if facts.get("protocol") != PROTOCOL:
        raise worker_failed(where, f"it speaks protocol {facts.get('protocol')}, not {PROTOCOL}", layer="local")
    return Hello(facts, bytes(reader.buffer), pushed=state == "need")


class _Reader:
    def __init__(self, where: str, stream: Greeter) -> None:
        self.where = where
        self.stream = stream
        self.buffer = bytearray()
        self.seen = bytearray()

    async def more(self) -> None:
        data = await self.stream.receive()
        if not data:
            said = one_line((self.seen + self.buffer).decode("utf-8", "replace") + " " + self.stream.complaint(), 600)
            raise worker_failed(self.where, "the channel closed during start-up", said)
        self.buffer += data

    async def skip_to(self, mark: bytes) -> None:
        while (at := self.buffer.find(mark)) < 0:
            if len(self.buffer) > MAX_BANNER:
                raise worker_failed(self.where, "it never said hello", one_line(self.buffer.decode("utf-8", "replace")))
            await self.more()
        self.seen += self.buffer[:at]
        del self.buffer[: at + len(mark)]

    async def line(self) -> bytes:
        while (at := self.buffer.find(b"\n")) < 0:
            await self.more()
        line = bytes(self.buffer[:at])
        del self.buffer[: at + 1]
        return line

    async def exactly(self, count: int) -> bytes:
        while len(self.buffer) < count:
            await self.more()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    async def hello(self) -> dict[str, Any]:
        try:
            head_bytes, _body_bytes = lengths(await self.exactly(HEADER_BYTES))
            head = orjson.loads(await self.exactly(head_bytes))
            return dict(head["hello"])
        except (FrameError, orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise worker_failed(self.where, f"its hello is unreadable ({error})") from None

"""A byte stream that is first read by the greeting and then feeds a channel."""

from abc import ABC, abstractmethod
from typing import Protocol

import anyio

from vaws_mcp.core.sanitize import plain_text

MAX_STDERR = 16 << 10


class Taker(Protocol):
    """What takes the bytes of a worker that has greeted: the channel of requests, or a bulk transfer."""

    def feed(self, data: bytes) -> None:
        """Take received bytes."""
        ...

    def lose(self, why: str) -> None:
        """Note that nothing more will come."""
        ...


class WorkerStream(ABC):
    """Collects what a transport's callbacks deliver. Transports subclass it for writing."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._stderr = bytearray()
        self._news = anyio.Event()
        self._ended = False
        self._channel: Taker | None = None
        self._writable = anyio.Event()
        self._writable.set()

    # Called by the transport.

    def on_stdout(self, data: bytes) -> None:
        """Take bytes of the worker's standard output."""
        if self._channel is not None:
            self._channel.feed(data)
        else:
            self._data += data
            self._news.set()

    def on_stderr(self, data: bytes) -> None:
        """Keep the end of what the endpoint writes to standard error, for failure messages."""
        self._stderr += data
        del self._stderr[:-MAX_STDERR]

    def on_end(self, why: str) -> None:
        """Note that nothing more will come."""
        self._ended = True
        self._news.set()
        self._writable.set()
        if self._channel is not None:
            self._channel.lose(why)

    def on_writable(self, *, writable: bool) -> None:
        """Note whether the transport can take more."""
        if writable:
            self._writable.set()
        elif self._writable.is_set():
            self._writable = anyio.Event()

    # Used by the greeting and the channel.

    async def receive(self) -> bytes:
        """Return bytes received so far; empty at the end."""
        while not self._data and not self._ended:
            self._news = anyio.Event()
            await self._news.wait()
        data = bytes(self._data)
        self._data.clear()
        return data

    def complaint(self) -> str:
        """Return the end of standard error as plain text."""
        return plain_text(self._stderr.decode("utf-8", "replace")).strip()

    async def drained(self) -> None:
        """Return when the transport can take more."""
        if not self._writable.is_set():
            await self._writable.wait()

    def attach(self, channel: Taker, rest: bytes) -> None:
        """Hand the stream over to the channel."""
        self._channel = channel
        data = rest + bytes(self._data)
        self._data.clear()
        if data:
            channel.feed(data)
        if self._ended:
            channel.lose("the connection ended")

    @abstractmethod
    def write_parts(self, parts: list[bytes]) -> None:
        """Queue bytes for the worker."""

    @abstractmethod
    def hold(self, *, held: bool) -> None:
        """Stop taking bytes from the worker, or go on: a slow reader of bulk data must not fill the memory."""

    @abstractmethod
    def close(self) -> None:
        """End the worker by closing its standard input."""

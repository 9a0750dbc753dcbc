"""MCP messages as lines of JSON on standard input and output, in the event loop: threads would cost time per message.

Input and output may be a pipe, a socket (also one for both), a terminal, a file or the null device.
"""

import asyncio
import fcntl
import os
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Self

import anyio
import anyio.lowlevel
import mcp_types as types
from mcp.shared.message import SessionMessage

from vaws_mcp.server.unreadable import answer_to, has_id

READ_BYTES = 256 << 10
MAX_LINE_BYTES = 64 << 20
# What is kept of both ends of a longer line: the id of the request is there.
KEPT_BYTES = 4 << 10
MAX_WAITING_BYTES = 1 << 20
LAST_WRITE_S = 5.0


class Writer:
    """Writes messages. What the client does not take yet waits here, and with it the sender of the next message."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._waiting = bytearray()
        self._watching = False
        self._empty = anyio.Event()
        self._closed = False
        self._broken = False
        kind = os.fstat(fd).st_mode
        # A terminal is shared with other programs, which would be surprised; a file never lets one wait.
        self._unblocked = (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)) and os.get_blocking(fd)
        if self._unblocked:
            os.set_blocking(fd, False)

    async def send(self, item: SessionMessage, /) -> None:
        """Write a message.

        Raises: anyio.ClosedResourceError; anyio.BrokenResourceError when the client does not read any more.
        """
        if self._closed:
            raise anyio.ClosedResourceError
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        if self._broken:
            raise anyio.BrokenResourceError
        self._waiting += line.encode() + b"\n"
        if not self._watching:
            self._write()
        if len(self._waiting) > MAX_WAITING_BYTES:
            await self._empty.wait()

    def _write(self) -> None:
        """Write as much as the client takes now, and the rest when it takes more."""
        try:
            while self._waiting:
                del self._waiting[: os.write(self._fd, self._waiting)]
        except BlockingIOError:
            self._watch()
            return
        except OSError:
            self._broken = True
            self._waiting.clear()
        self._stop_watching()

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._empty = anyio.Event()
            asyncio.get_running_loop().add_writer(self._fd, self._write)

    def _stop_watching(self) -> None:
        if self._watching:
            self._watching = False
            asyncio.get_running_loop().remove_writer(self._fd)
        self._empty.set()

    async def aclose(self) -> None:
        """Give the client a bounded time to take the rest."""
        if self._closed:
            return
        self._closed = True
        if self._watching:
            with anyio.move_on_after(LAST_WRITE_S, shield=True):
                await self._empty.wait()
        self._stop_watching()
        if self._unblocked:
            os.set_blocking(self._fd, True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class Reader:
    """Reads messages, one when the server asks for one. A line that is none is answered here with the reason."""

    def __init__(self, fd: int, writer: Writer) -> None:
        self._fd = fd
        self._writer = writer
        self._buffer = bytearray()
        self._searched = 0
        self._overlong = False
        self._ended = False

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises: anyio.EndOfStream.
        """
        while True:
            line, overlong = await self._line()
            if overlong:
                why = f"longer than {MAX_LINE_BYTES >> 20} MB"
            else:
                try:
                    message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    why = str(error)
                else:
                    if not isinstance(message, types.JSONRPCNotification) or not has_id(line):
                        return SessionMessage(message)
                    why = "its id is neither a number nor a text"
            if (answer := answer_to(line, why)) is not None:
                await self._writer.send(SessionMessage(answer))

    async def _line(self) -> tuple[bytes, bool]:
        """Return the next line that is not blank, and whether its middle was left out because it is too long."""
        if b"\n" in self._buffer:
            await anyio.lowlevel.checkpoint()  # what the last message started comes first
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end < 0 and not self._ended:
                await self._read()
                continue
            line = bytes(self._buffer if end < 0 else memoryview(self._buffer)[:end])
            del self._buffer[: len(line) + 1]
            overlong, self._overlong, self._searched = self._overlong, False, 0
            if line.strip():
                return line, overlong
            if end < 0:
                raise anyio.EndOfStream

    async def _read(self) -> None:
        self._searched = len(self._buffer)
        if self._searched > MAX_LINE_BYTES:
            self._overlong = True
            del self._buffer[KEPT_BYTES:-KEPT_BYTES]
            self._searched = len(self._buffer)
        try:
            await anyio.wait_readable(self._fd)
        except OSError:  # a file or the null device: it never lets one wait
            await anyio.lowlevel.checkpoint()
        try:
            data = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # a terminal that hung up, a socket that was reset
            data = b""
        self._buffer += data
        self._ended = not data

    async def aclose(self) -> None:
        """Read nothing more."""
        self._ended = True
        self._buffer.clear()
        await anyio.lowlevel.checkpoint()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


def fill_closed_streams() -> None:
    """Open the null device for each standard stream that is closed, before anything else takes its number."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - it is, when it was closed
        sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[tuple[Reader, Writer]]:
    """Give the streams of the process's client.

    Meanwhile standard input is empty and standard output is standard error, so that nothing that this process or a
    child prints or reads comes between.
    """
    with _claimed(0, _nothing) as in_fd, _claimed(1, _standard_error) as out_fd:
        async with Writer(out_fd) as writer:
            yield Reader(in_fd, writer), writer


@contextmanager
def _claimed(fd: int, instead: Callable[[], int]) -> Generator[int]:
    """Give a descriptor of our own for what ``fd`` is, and let ``fd`` be something else meanwhile."""
    own = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        other = instead()
        os.dup2(other, fd)
        os.close(other)
        yield own
    finally:
        os.dup2(own, fd)
        os.close(own)


def _nothing() -> int:
    return os.open(os.devnull, os.O_RDWR)


def _standard_error() -> int:
    try:
        return os.dup(2)
    except OSError:
        return _nothing()

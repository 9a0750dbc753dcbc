"""The endpoint ``local``: the same worker as a child process."""

import asyncio
import contextlib
import os
from pathlib import Path

import anyio

from vaws_mcp.endpoint.failures import worker_failed
from vaws_mcp.endpoint.stream import WorkerStream

CLOSE_WAIT_S = 5.0


class _Protocol(asyncio.SubprocessProtocol):
    def __init__(self, stream: "LocalStream") -> None:
        self.stream = stream

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self.stream.on_stdout if fd == 1 else self.stream.on_stderr)(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.stream.on_end(f"the worker closed its output ({exc or 'it ended'})")

    def process_exited(self) -> None:
        self.stream.exited.set()

    def pause_writing(self) -> None:
        self.stream.on_writable(writable=False)

    def resume_writing(self) -> None:
        self.stream.on_writable(writable=True)


class LocalStream(WorkerStream):
    """A worker on this machine. It is a session leader, so that a terminal's signals do not reach it."""

    def __init__(self) -> None:
        super().__init__()
        self.exited = anyio.Event()
        self._transport: asyncio.SubprocessTransport | None = None

    @classmethod
    async def start(cls, where: str, argv: list[str]) -> "LocalStream":
        """Start the worker process.

        Raises: Failure ``worker_failed`` when the program cannot be started.
        """
        stream = cls()
        try:
            transport, _protocol = await asyncio.get_running_loop().subprocess_exec(
                lambda: _Protocol(stream), *argv, cwd=str(Path.home()), env=dict(os.environ), start_new_session=True
            )
        except OSError as error:
            raise worker_failed(where, str(error), layer="local") from None
        stream._transport = transport
        return stream

    def write_parts(self, parts: list[bytes]) -> None:
        """Queue bytes for the worker."""
        pipe = self._transport and self._transport.get_pipe_transport(0)
        if isinstance(pipe, asyncio.WriteTransport) and not pipe.is_closing():
            pipe.writelines(parts)

    def close(self) -> None:
        """Close the worker's standard input; it drains what it started and ends."""
        pipe = self._transport and self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()

    async def aclose(self) -> None:
        """Close and wait, for a bounded time, until the process is gone."""
        self.close()
        with anyio.move_on_after(CLOSE_WAIT_S):
            await self.exited.wait()
        if self._transport is not None:
            with contextlib.suppress(ProcessLookupError):
                self._transport.close()

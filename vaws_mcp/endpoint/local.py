"""The endpoint ``local``: the same worker as a child process."""

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path

import anyio

from vaws_mcp.endpoint.failures import worker_failed
from vaws_mcp.endpoint.stream import WorkerStream

CLOSE_WAIT_S = 5.0
EXIT_WAIT_S = 0.5


class _Protocol(asyncio.SubprocessProtocol):
    def __init__(self, stream: "LocalStream") -> None:
        self.stream = stream

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        (self.stream.on_stdout if fd == 1 else self.stream.on_stderr)(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.stream.let_go.set()
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
        self.let_go = anyio.Event()
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

    def hold(self, *, held: bool) -> None:
        """Let the pipe fill, or empty it."""
        pipe = self._transport and self._transport.get_pipe_transport(1)
        if isinstance(pipe, asyncio.ReadTransport) and not pipe.is_closing():
            (pipe.pause_reading if held else pipe.resume_reading)()

    def close(self) -> None:
        """Close the worker's standard input; it drains what it started and ends."""
        pipe = self._transport and self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()

    async def aclose(self) -> None:
        """Close and wait, for a bounded time, until the process is gone, or has closed its output to keep its jobs."""
        self.close()
        with anyio.move_on_after(CLOSE_WAIT_S):
            await self.let_go.wait()
            with anyio.move_on_after(EXIT_WAIT_S):
                await self.exited.wait()
        if self._transport is None:
            return
        if self.let_go.is_set() and not self.exited.is_set():
            _disown(self._transport)
        with contextlib.suppress(ProcessLookupError):
            self._transport.close()


def _disown(transport: asyncio.SubprocessTransport) -> None:
    """Let the process live on: closing the transport would kill what ``Popen`` does not know to have ended."""
    process = transport.get_extra_info("subprocess")
    if isinstance(process, subprocess.Popen):
        process.returncode = 0

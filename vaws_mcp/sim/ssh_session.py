"""One SSH session of the simulated container: a local process with the container's environment.

Data is pumped by hand in both directions with flow control, so a session can carry any bytes and any amount of them.
As with OpenSSH, closing a channel closes the pipes of a command without terminal but does not end it.
"""

import asyncio
import contextlib
import fcntl
import os
import signal as signals
import struct
import termios
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import asyncssh

PIPE_BYTES = 1 << 20
STDERR = 1
SHELL = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


class _Output(asyncio.Protocol):
    """Takes what one stream of the command writes to the channel."""

    def __init__(self, session: "Session", kind: int | None) -> None:
        self.session = session
        self.kind = kind

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.session.sources.append(cast("asyncio.ReadTransport", transport))

    def data_received(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError, OSError):
            self.session.channel.write(data, self.kind)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.session.stream_ended()


class _Input(asyncio.Protocol):
    """Slows the channel down when the command does not read its input."""

    def __init__(self, session: "Session") -> None:
        self.session = session

    def pause_writing(self) -> None:
        self.session.channel.pause_reading()

    def resume_writing(self) -> None:
        # Not at once: the transport drops what is written and closed while it is inside this call.
        asyncio.get_running_loop().call_soon(self.session.channel.resume_reading)


class Session(asyncssh.SSHServerSession[bytes]):
    """One command, or a login shell when none is given."""

    channel: "asyncssh.SSHServerChannel[bytes]"

    def __init__(self, environment: Mapping[str, str], workdir: Path) -> None:
        self.environment = dict(environment)
        self.workdir = workdir
        self.command: str | None = None
        self.terminal: tuple[int, int] | None = None
        self.terminal_type: str | None = None
        self.process: asyncio.subprocess.Process | None = None
        self.stdin: asyncio.WriteTransport | None = None
        self.sources: list[asyncio.ReadTransport] = []
        self.open_streams = 0
        self.early: list[bytes | None] = []
        self.early_signals: list[int] = []
        self.paused = False
        self.ended = asyncio.Event()

    def connection_made(self, chan: "asyncssh.SSHServerChannel[bytes]") -> None:
        """Keep the channel."""
        self.channel = chan

    def pty_requested(
        self, term_type: str, term_size: tuple[int, int, int, int], term_modes: Mapping[int, int]
    ) -> bool:
        """Accept a terminal."""
        del term_modes
        self.terminal_type, self.terminal = term_type, (term_size[0], term_size[1])
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        """Pass the new size on to the terminal."""
        del pixwidth, pixheight
        if self.stdin and self.terminal:
            _set_size(cast("Any", self.stdin).get_extra_info("pipe").fileno(), width, height)

    def shell_requested(self) -> bool:
        """Accept a login shell."""
        return True

    def exec_requested(self, command: str) -> bool:
        """Accept a command."""
        self.command = command
        return True

    def session_started(self) -> None:
        """Start the command."""
        self.task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Pass input on to the command."""
        del datatype
        self._feed(data)

    def eof_received(self) -> bool:
        """Close the command's input and keep the channel for its output."""
        self._feed(None)
        return True

    def signal_received(self, signal: str) -> None:
        """Send a signal to the command."""
        number = getattr(signals, f"SIG{signal}", None)
        if number is not None:
            self._signal(number)

    def break_received(self, msec: int) -> bool:
        """Treat a break as an interrupt."""
        del msec
        self._signal(signals.SIGINT)
        return True

    def pause_writing(self) -> None:
        """Stop reading the command's output while the client is slow."""
        self.paused = True
        for source in self.sources:
            with contextlib.suppress(RuntimeError):
                source.pause_reading()

    def resume_writing(self) -> None:
        """Read the command's output again."""
        self.paused = False
        for source in self.sources:
            with contextlib.suppress(RuntimeError):
                source.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the pipes; a command without terminal lives on, one with a terminal gets SIGHUP from the kernel."""
        del exc
        if self.stdin:
            self.stdin.close()
        else:
            self.early.append(None)
        for source in self.sources:
            source.close()

    def stream_ended(self) -> None:
        """Count a finished output stream."""
        self.open_streams -= 1
        if self.open_streams == 0:
            self.ended.set()

    def _signal(self, number: int) -> None:
        if self.process is None:
            self.early_signals.append(number)
        elif self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def _feed(self, data: bytes | None) -> None:
        if self.stdin is None:
            self.early.append(data)
        elif data is None:
            # Closing the write half of a terminal would hang it up; an end of file there is a control character.
            self.stdin.write(b"\x04") if self.terminal else self.stdin.close()
        elif not self.stdin.is_closing():
            self.stdin.write(data)

    async def _run(self) -> None:
        try:
            await (self._start_on_terminal() if self.terminal else self._start_on_pipes())
        except (OSError, ValueError) as error:
            self.channel.write_stderr(f"cannot start {SHELL}: {error}\n".encode())
            self.channel.exit(255)
            return
        if self.process is None:
            raise RuntimeError("the command was not started")
        early, self.early = self.early, []
        for data in early:
            self._feed(data)
        for number in self.early_signals:
            self._signal(number)
        status = await self.process.wait()
        if not self.terminal:
            await self.ended.wait()
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ended.wait(), 1.0)
        with contextlib.suppress(OSError):
            self._exit(status)

    def _exit(self, status: int) -> None:
        if status >= 0:
            self.channel.exit(status)
        else:
            self.channel.exit_with_signal(signals.Signals(-status).name.removeprefix("SIG"))

    def _argv(self) -> tuple[list[str], dict[str, str]]:
        environment = dict(self.environment)
        client: Any = self.channel.get_extra_info("peername") or ("127.0.0.1", 0)
        server: Any = self.channel.get_extra_info("sockname") or ("127.0.0.1", 0)
        environment["SSH_CONNECTION"] = f"{client[0]} {client[1]} {server[0]} {server[1]}"
        if self.terminal_type:
            environment["TERM"] = self.terminal_type
        return ([SHELL, "-l"] if self.command is None else [SHELL, "-c", self.command]), environment

    async def _reader(self, fd: int, kind: int | None) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: _Output(self, kind), os.fdopen(fd, "rb", 0))
        if self.paused:
            transport.pause_reading()

    async def _writer(self, fd: int) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_write_pipe(lambda: _Input(self), os.fdopen(fd, "wb", 0))
        self.stdin = transport

    async def _start_on_pipes(self) -> None:
        argv, environment = self._argv()
        ends = [os.pipe() for _ in range(3)]
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = ends
        for _, write_end in ends:
            with contextlib.suppress(OSError):
                fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        try:
            self.process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=in_read,
                stdout=out_write,
                stderr=err_write,
                env=environment,
                cwd=self.workdir,
                start_new_session=True,
            )
        except (OSError, ValueError):
            for fd in (in_write, out_read, err_read):
                os.close(fd)
            raise
        finally:
            for fd in (in_read, out_write, err_write):
                os.close(fd)
        self.open_streams = 2
        await self._reader(out_read, None)
        await self._reader(err_read, STDERR)
        await self._writer(in_write)

    async def _start_on_terminal(self) -> None:
        argv, environment = self._argv()
        ours, theirs = os.openpty()
        _set_size(ours, *(self.terminal or (80, 24)))
        try:
            self.process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=environment,
                cwd=self.workdir,
                start_new_session=True,
                preexec_fn=_take_terminal,
            )
        except (OSError, ValueError):
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self.open_streams = 1
        await self._reader(os.dup(ours), None)
        await self._writer(ours)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(fd: int, width: int, height: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height or 24, width or 80, 0, 0))

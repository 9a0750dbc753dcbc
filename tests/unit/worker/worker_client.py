"""A small synchronous client that drives a real worker process through frames."""

from __future__ import annotations

import contextlib
import io
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vaws_mcp.worker import wire
from vaws_mcp.worker.launch import command_line

PROJECT = Path(__file__).resolve().parents[3]
WAIT_S = 20.0


def worker_argv(python: str) -> list[str]:
    """Return the command line of the worker of this checkout."""
    return command_line(python, str(PROJECT), "vaws_mcp.worker")


class WorkerError(Exception):
    """The worker answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.error = error
        self.code = error["code"]


class Answer:
    """Result, body and the events that came before them."""

    def __init__(self, result: dict[str, Any], body: bytes, events: list[tuple[dict[str, Any], bytes]]) -> None:
        self.result = result
        self.body = body
        self.events = events


class Client:
    """A worker process and the frames to and from it; every wait is bounded."""

    def __init__(self, env: dict[str, str], argv: list[str] | None = None, cwd: str = "/") -> None:
        full = {**os.environ, **env}
        self.process = subprocess.Popen(
            argv or worker_argv(sys.executable),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=full,
            cwd=cwd,
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self._in, self._out, self._err = self.process.stdin, self.process.stdout, self.process.stderr
        os.set_blocking(self._out.fileno(), False)
        self._buffer = bytearray()
        self._next_id = 0
        self._frames: dict[int, list[tuple[dict[str, Any], bytes]]] = {}
        try:
            assert self._read_exactly(len(wire.MAGIC)) == wire.MAGIC
            self.hello = self.read_frame()[0]["hello"]
        except BaseException:
            self.close()
            raise

    def _read_exactly(self, count: int) -> bytes:
        limit = time.monotonic() + WAIT_S
        while len(self._buffer) < count:
            ready, _, _ = select.select([self._out], [], [], max(0.0, limit - time.monotonic()))
            if not ready:
                raise TimeoutError(f"no frame within {WAIT_S} s")
            chunk = os.read(self._out.fileno(), 1 << 20)
            if not chunk:
                raise EOFError(self._err.read().decode())
            self._buffer += chunk
        raw = bytes(self._buffer[:count])
        del self._buffer[:count]
        return raw

    def read_frame(self) -> tuple[dict[str, Any], bytes]:
        """Return the next frame, whatever it belongs to."""
        frame = wire.read_frame(self._read_exactly)
        assert frame is not None
        return frame

    def send_raw(self, raw: bytes) -> None:
        """Write bytes to the worker as they are."""
        self._in.write(raw)
        self._in.flush()

    def send(self, head: dict[str, Any], body: bytes = b"") -> None:
        """Write one frame."""
        self.send_raw(b"".join(wire.encode(head, body)))

    def start(self, method: str, params: dict[str, Any], body: bytes = b"", deadline_s: float | None = None) -> int:
        """Send a request and return its id."""
        self._next_id += 1
        head: dict[str, Any] = {"id": self._next_id, "call": method, "params": params}
        if deadline_s is not None:
            head["deadline_s"] = deadline_s
        self.send(head, body)
        return self._next_id

    def wait_event(self, number: int) -> tuple[dict[str, Any], bytes]:
        """Wait for the next event of a request and keep it for ``finish``."""
        seen = len(self._frames.get(number, []))
        while len(self._frames.get(number, [])) == seen:
            self._keep()
        return self._frames[number][-1]

    def _keep(self) -> None:
        head, body = self.read_frame()
        self._frames.setdefault(head["id"], []).append((head, body))

    def finish(self, number: int) -> Answer:
        """Wait for the answer to a request."""
        while True:
            frames = self._frames.get(number, [])
            if frames and "event" not in frames[-1][0]:
                break
            self._keep()
        del self._frames[number]
        head, body = frames[-1]
        if "error" in head:
            raise WorkerError(head["error"])
        return Answer(head["result"], body, frames[:-1])

    def call(self, method: str, params: dict[str, Any] | None = None, body: bytes = b"") -> Answer:
        """Send a request and wait for its answer."""
        return self.finish(self.start(method, params or {}, body))

    def bash(self, command: str, **params: Any) -> Answer:
        """Run a bash command."""
        return self.call("run", {"command": command, **params})

    def close_input(self) -> int:
        """End the connection as a lost client does; returns the worker's exit status."""
        if not self._in.closed:
            with contextlib.suppress(BrokenPipeError):
                self._in.close()
        return self.process.wait(WAIT_S)

    def close(self) -> None:
        """End the worker and the pipes."""
        try:
            self.close_input()
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(WAIT_S)
            for stream in (self._out, self._err):
                stream.close()


def rss_kib(pid: int) -> int:
    """Return the peak resident memory of a process in KiB."""
    for line in io.StringIO(Path(f"/proc/{pid}/status").read_text()):
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise ValueError(pid)


Start = Callable[..., Client]

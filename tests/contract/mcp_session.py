"""A server process and the plain JSON lines to and from it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WAIT_S = 30.0


class Session:
    """A client that knows nothing but the protocol. A watchdog ends the server when a test hangs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._id = 0

    def notify(self, method: str) -> None:
        self._write({"jsonrpc": "2.0", "method": method})

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the whole answer; notifications in between are passed over."""
        self._id += 1
        self._write({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params or {}})
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == self._id:
                return message
        raise AssertionError(f"the server ended before it answered {method}")

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


@contextmanager
def serving(state_dir: Path, log: Path, *options: str) -> Generator[Session]:
    """Run a server that has been initialised; its standard error goes to ``log``."""
    environment = {"VAWS_STATE_DIR": str(state_dir), "HOME": str(state_dir), "PATH": "/usr/bin:/bin"}
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, *options, "-m", "vaws_mcp", "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
        )
    watchdog = threading.Timer(WAIT_S, process.kill)
    watchdog.start()
    try:
        session = Session(process)
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        assert session.ask("initialize", client)["result"]["serverInfo"]["name"] == "vaws-mcp"
        session.notify("notifications/initialized")
        yield session
        assert process.stdin
        process.stdin.close()
        assert process.wait(WAIT_S) == 0, log.read_text(errors="replace")[-2000:]
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
        process.wait(WAIT_S)
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()

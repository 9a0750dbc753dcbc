"""A server spoken to by hand."""

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections.abc import Generator
from pathlib import Path

from flow_world import CALL_BOUND_S, COMMAND, Json, surroundings


class RawServer:
    """`remote-dev mcp` spoken to by hand, so that a test can kill it, or close its input, at any moment."""

    def __init__(self, state_dir: Path) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "mcp"],
            env=surroundings(state_dir),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._messages: queue.Queue[Json] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._answers: dict[int, Json] = {}
        self._last = 0
        version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        self.answer(self.send("initialize", version))
        self._write({"method": "notifications/initialized"})

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._messages.put(json.loads(line))

    def _write(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, params: Json) -> int:
        """Send a request and return its id without waiting."""
        self._last += 1
        self._write({"id": self._last, "method": method, "params": params})
        return self._last

    def start(self, tool: str, arguments: Json) -> int:
        """Call a tool without waiting."""
        return self.send("tools/call", {"name": tool, "arguments": arguments})

    def answer(self, number: int) -> Json:
        """Wait for the answer of a request."""
        end = time.monotonic() + CALL_BOUND_S
        while number not in self._answers:
            message = self._messages.get(timeout=max(0.0, end - time.monotonic()))
            if "id" in message:
                self._answers[message["id"]] = message["result"]
        return self._answers.pop(number)

    def call(self, tool: str, arguments: Json) -> Json:
        """Call a tool and return our answer."""
        return json.loads(self.answer(self.start(tool, arguments))["content"][0]["text"])

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.close_input()


@contextlib.contextmanager
def raw_server(state_dir: Path) -> Generator[RawServer]:
    server = RawServer(state_dir)
    try:
        yield server
    finally:
        server.end()

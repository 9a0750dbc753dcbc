"""A running simulated container in tests, and ways to run things in it."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

import vaws_mcp.sim as sim
from vaws_mcp.sim.container import environment
from vaws_mcp.sim.processes import Identity, marked, send_signal

FIXTURES = Path(__file__).parents[2].parent / "shared" / "fixtures"
OPENER = build_opener(ProxyHandler({}))


def fixture_text(name: str) -> str:
    """The text of a recorded sample; skips the test where the samples are not there."""
    path = FIXTURES / name
    if not path.exists():
        pytest.skip("the recorded samples are not in this checkout")
    return path.read_text(encoding="utf-8")


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> float:
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(0.01)
    return time.monotonic() - started


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def http(port: int, path: str, body: Any = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"http://127.0.0.1:{port}{path}", data, {"content-type": "application/json"})
    try:
        with OPENER.open(request, timeout=20) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


@dataclass
class Served:
    """A running simulated `vllm serve`."""

    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    def healthy(self) -> bool:
        with suppress(OSError):
            return http(self.port, "/health")[0] == 200
        return False

    def stop(self, number: int = signal.SIGINT, seconds: float = 3.0) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)


@dataclass
class Box:
    """A running container and its facts."""

    facts: dict[str, Any]

    @property
    def root(self) -> Path:
        return Path(self.facts["root"])

    def environment(self, **extra: str) -> dict[str, str]:
        return environment(self.root, self.facts["marker"], self.facts["boot_id"]) | extra

    def run(self, *argv: str, timeout: float = 30, **extra: str) -> "subprocess.CompletedProcess[str]":
        program = self.root / "bin" / argv[0]
        return subprocess.run(
            [str(program) if program.exists() else argv[0], *argv[1:]],
            env=self.environment(**extra),
            cwd=self.root / "root",
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def titles(self) -> list[str]:
        """Command lines of what runs in the container."""
        found: list[str] = []
        for identity in marked(self.facts["marker"]):
            with suppress(OSError):
                text = Path(f"/proc/{identity.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                found.append(text)
        return sorted(found)

    def pids(self, title: str) -> list[int]:
        found: list[int] = []
        for identity in marked(self.facts["marker"]):
            with suppress(OSError):
                if Path(f"/proc/{identity.pid}/cmdline").read_bytes().rstrip(b"\0 ").decode() == title:
                    found.append(identity.pid)
        return found

    def _started_with(self, variable: str) -> list[Identity]:
        found: list[Identity] = []
        for identity in marked(self.facts["marker"]):
            with suppress(OSError):
                if variable.encode() in Path(f"/proc/{identity.pid}/environ").read_bytes().split(b"\0"):
                    found.append(identity)
        return found

    @contextmanager
    def serve(self, *flags: str, wait: bool = True, **extra: str) -> Generator[Served]:
        """Run `vllm serve` on the model of the container; whatever it leaves is ended."""
        port = free_port()
        log = self.root / "root" / f"serve-{port}.log"
        argv = [str(self.root / "bin" / "vllm"), "serve", self.facts["model"], "--host", "127.0.0.1"]
        argv += ["--port", str(port), "--served-model-name", "sim", *flags]
        variables = self.environment(TEST_PORT=str(port), **extra)
        with log.open("wb") as file:
            process = subprocess.Popen(
                argv,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        served = Served(process, port, log)
        try:
            if wait:
                wait_until(lambda: served.healthy() or process.poll() is not None, 15, "the server is ready")
                assert process.poll() is None, log.read_text()
            yield served
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(5)
            for identity in self._started_with(f"TEST_PORT={port}"):
                send_signal(identity, signal.SIGKILL)

    def bench(self, port: int, *flags: str, **extra: str) -> "subprocess.CompletedProcess[str]":
        """Run `vllm bench serve` with a small load and a result file `r.json` in the home directory."""
        (self.root / "root" / "r.json").unlink(missing_ok=True)
        load = ["--random-input", "32", "--random-output", "8", "--num-prompts", "8", "--max-concurrency", "4"]
        target = ["--host", "127.0.0.1", "--port", str(port), "--model", "sim", "--tokenizer", self.facts["model"]]
        result = ["--save-result", "--result-filename", "r.json", "--temperature", "0"]
        return self.run("vllm", "bench", "serve", *target, *load, *result, *flags, timeout=30, **extra)

    def result(self) -> dict[str, Any]:
        return json.loads((self.root / "root" / "r.json").read_text())


QUIET = sim.SimOptions(noise_run=0, noise_launch=0, drift=0, load_seconds=0.05)

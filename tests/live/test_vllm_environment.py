"""The installed environment serves, answers, is measured and stops as the live tests need it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import install_vllm
import processes
import pytest
import vllm_recipe
from sshd import free_port

pytestmark = pytest.mark.live


@dataclass(frozen=True)
class Server:
    """A `vllm serve` that a test started; it leads a session of its own, so its pid is the session's id."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def family(self) -> list[processes.Process]:
        """Return the server's living processes."""
        return processes.session_members(self.process.pid)

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        """Send one request and return status and decoded answer."""
        connection = http.client.HTTPConnection(vllm_recipe.HOST, self.port, timeout=60)
        try:
            payload = json.dumps(body) if body is not None else None
            connection.request(method, path, payload, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def wait_ready(self) -> None:
        """Wait until `/health` answers; fail with the end of the log when it does not."""
        deadline = time.monotonic() + vllm_recipe.READY_TIMEOUT_S
        while self.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if self.request("GET", "/health")[0] == 200:
                    return
            time.sleep(0.5)
        log = self.log.read_text(encoding="utf-8", errors="replace")
        pytest.fail(f"vllm serve is not ready, exit code {self.process.poll()}:\n{log[-3000:]}")


def variables(place: install_vllm.Environment) -> dict[str, str]:
    return {**os.environ, **vllm_recipe.variables(place)}


@contextlib.contextmanager
def started(place: install_vllm.Environment, log: Path) -> Generator[Server]:
    port = free_port()
    with log.open("wb") as out:
        process = subprocess.Popen(
            vllm_recipe.serve_argv(place, port),
            env=variables(place),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = Server(process, port, log)
    try:
        yield server
    finally:
        processes.end(server.family())
        process.wait(timeout=10)


@pytest.mark.timeout(400)
def test_real_vllm_serves_is_measured_and_leaves_nothing(
    vllm_environment: install_vllm.Environment, tmp_path: Path
) -> None:
    with started(vllm_environment, tmp_path / "serve.log") as server:
        server.wait_ready()
        status, answer = server.request(
            "POST", "/v1/completions", {"model": vllm_recipe.SERVED_MODEL_NAME, "prompt": "import os", "max_tokens": 4}
        )
        assert status == 200, answer
        assert answer["usage"]["completion_tokens"] in range(1, 5)

        result = tmp_path / "bench.json"
        bench = subprocess.run(
            vllm_recipe.bench_argv(vllm_environment, server.port, result),
            env=variables(vllm_environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=vllm_recipe.BENCH_TIMEOUT_S,
            check=False,
        )
        assert bench.returncode == 0, bench.stderr[-3000:]
        figures = json.loads(result.read_text(encoding="utf-8"))
        assert figures["completed"] == vllm_recipe.NUM_PROMPTS
        assert figures["output_throughput"] > 0

        family = server.family()
        assert [process for process in family if process.comm.startswith("VLLM::")]
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=vllm_recipe.STOP_TIMEOUT_S) == 0
        assert processes.wait_gone(family, 10) == []
        assert server.family() == []

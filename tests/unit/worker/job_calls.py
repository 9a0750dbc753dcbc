"""Calls that start jobs, look at them and read them to their end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker_client import Client

from vaws_mcp.worker.facts import procfs

Start = Callable[..., Client]
WAIT_S = 15.0
FAMILY = "(trap '' INT TERM HUP; setsid sleep 100 & echo $! >> pids; sleep 100) & sleep 100 & echo $! >> pids; wait"


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait until something is true and return it."""
    limit = time.monotonic() + WAIT_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < limit, what
        time.sleep(0.01)


def lives(pid: int) -> bool:
    process = procfs.read_process(pid)
    return process is not None and process.alive


def job(worker: Client, command: str, body: bytes = b"", yield_s: float = 0.0, **params: Any) -> str:
    """Start a command that becomes a job at once, and return the job's id."""
    answer = worker.call("run", {"command": command, "yield_s": yield_s, **params}, body)
    assert answer.result["running"] is True
    return str(answer.result["job_id"])


def status(worker: Client, job_id: str) -> dict[str, Any]:
    return worker.call("job.status", {"job_id": job_id}).result


def ended(worker: Client, job_id: str) -> dict[str, Any]:
    """Wait for the end of a job."""

    def look() -> dict[str, Any] | None:
        found = status(worker, job_id)
        return None if found["state"] == "running" else found

    return dict(until(look, f"{job_id} did not end"))


def read_all(worker: Client, job_id: str, stream: str = "stdout", max_bytes: int = 65536) -> bytes:
    """Follow a stream to its end with cursors alone."""
    pieces: list[bytes] = []
    offset, limit = 0, time.monotonic() + WAIT_S
    while time.monotonic() < limit:
        params = {"job_id": job_id, "stream": stream, "offset": offset, "max_bytes": max_bytes, "wait_s": 1.0}
        page = worker.call("job.tail", params)
        assert page.result["offset"] == offset
        assert page.result["next_offset"] == offset + len(page.body)
        pieces.append(page.body)
        offset = page.result["next_offset"]
        if page.result["eof"]:
            return b"".join(pieces)
    raise AssertionError(f"{job_id} {stream} has no end")


def pid_list(home: Path) -> list[int]:
    path = home / "pids"
    return [int(word) for word in path.read_text().split()] if path.exists() else []

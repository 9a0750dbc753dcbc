"""Finds and ends the processes that a live test started, one verified process at a time. Linux only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process as `/proc` shows it; `start_ticks` tells it from a later one with the same pid."""

    pid: int
    comm: str
    state: str
    ppid: int
    sid: int
    start_ticks: int


def read_process(pid: int) -> Process | None:
    """Return the process with this pid, or None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name stands in parentheses and may itself contain parentheses and blanks.
    before, _, after = text.rpartition(") ")
    fields = after.split()
    return Process(
        pid=pid,
        comm=before.partition(" (")[2],
        state=fields[0],
        ppid=int(fields[1]),
        sid=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def living() -> Iterator[Process]:
    """Yield every process that is not a zombie: a container's first process may reap late."""
    for entry in Path("/proc").iterdir():
        process = read_process(int(entry.name)) if entry.name.isdigit() else None
        if process is not None and process.state not in "ZX":
            yield process


def session_members(sid: int) -> list[Process]:
    """Return the living processes of one session."""
    return [process for process in living() if process.sid == sid]


def children(pid: int) -> list[Process]:
    """Return the living children of one process."""
    return [process for process in living() if process.ppid == pid]


def is_alive(process: Process) -> bool:
    """Say whether this very process still lives."""
    now = read_process(process.pid)
    return now is not None and now.start_ticks == process.start_ticks and now.state not in "ZX"


def send(process: Process, signum: signal.Signals) -> None:
    """Signal this very process, or nobody when it has gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(process):
            signal.pidfd_send_signal(handle, signum)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def wait_gone(processes: Sequence[Process], timeout_s: float) -> list[Process]:
    """Wait until all have gone and return those that still live at the deadline."""
    deadline, pause = time.monotonic() + timeout_s, 0.01
    while True:
        left = [process for process in processes if is_alive(process)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(pause)
        pause = min(pause * 2, 0.5)


def end(processes: Sequence[Process], grace_s: float = 5.0) -> list[Process]:
    """End the processes, first with SIGTERM, then with SIGKILL, and return survivors."""
    for process in processes:
        send(process, signal.SIGTERM)
    left = wait_gone(processes, grace_s)
    for process in left:
        send(process, signal.SIGKILL)
    return wait_gone(left, grace_s)

"""Processes as the kernel shows them in ``/proc``, and their identity.

Source: proc(5). The identity of a process is (boot id, pid, start ticks): a pid alone is used again.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, NamedTuple, Optional

ZOMBIE_STATES = "ZX"


class Identity(NamedTuple):
    """One process for as long as the machine runs. Units: start_ticks in clock ticks since boot."""

    pid: int
    start_ticks: int


class Process(NamedTuple):
    """One line of the process table. Units: start_ticks in clock ticks since boot."""

    pid: int
    ppid: int
    pgid: int
    sid: int
    state: str
    start_ticks: int
    comm: str
    uid: int

    @property
    def identity(self) -> Identity:
        """The pair that names this process and no later one with its pid."""
        return Identity(self.pid, self.start_ticks)

    @property
    def alive(self) -> bool:
        """False for a zombie: it holds nothing and runs nothing."""
        return self.state not in ZOMBIE_STATES


def parse_stat(raw: bytes, uid: int) -> Optional[Process]:
    """Parse ``/proc/PID/stat``; the name may hold blanks and parentheses. None when it is not such a line."""
    opening, closing = raw.find(b" ("), raw.rfind(b") ")
    fields = raw[closing + 2 :].split()
    if opening < 1 or closing < opening or len(fields) < 20:
        return None
    try:
        return Process(
            pid=int(raw[:opening]),
            ppid=int(fields[1]),
            pgid=int(fields[2]),
            sid=int(fields[3]),
            state=fields[0].decode("ascii", "replace"),
            start_ticks=int(fields[19]),
            comm=raw[opening + 2 : closing].decode("utf-8", "replace"),
            uid=uid,
        )
    except ValueError:
        return None


def read_process(pid: int) -> Optional[Process]:
    """Return the process with this pid, zombie or not, or None when there is none."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return parse_stat(os.read(fd, 4096), os.fstat(fd).st_uid)
    except OSError:
        return None
    finally:
        os.close(fd)


def identity_of(pid: int) -> Optional[Identity]:
    """Return the identity of the process with this pid, or None when there is none."""
    process = read_process(pid)
    return None if process is None else process.identity


def is_alive(identity: Identity) -> bool:
    """Tell whether this very process still runs; a zombie does not."""
    process = read_process(identity.pid)
    return process is not None and process.start_ticks == identity.start_ticks and process.alive


def read_small(path: str, limit: int = 1 << 20) -> Optional[bytes]:
    """Return the contents of a small kernel file, or None when it cannot be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(limit)
    except OSError:
        return None


def has_variable(pid: int, assignment: bytes) -> bool:
    """Tell whether ``NAME=value`` is in the environment that the process was started with."""
    raw = read_small(f"/proc/{pid}/environ")
    return raw is not None and b"\0" + assignment + b"\0" in b"\0" + raw


def parse_environment(raw: bytes) -> Dict[str, str]:
    """Parse NUL-separated assignments, as in ``/proc/PID/environ`` and from ``env -0``."""
    found: Dict[str, str] = {}
    for item in raw.split(b"\0"):
        name, equals, value = item.partition(b"=")
        if equals and name:
            found[os.fsdecode(name)] = os.fsdecode(value)
    return found


def title(pid: int, limit: int = 4096) -> str:
    """Return the command line as one string, as ``ps`` shows it; empty for kernel threads and zombies."""
    raw = read_small(f"/proc/{pid}/cmdline", limit) or b""
    return raw.replace(b"\0", b" ").strip().decode("utf-8", "replace")


def scope() -> Optional[bytes]:
    """Return the assignment that marks the processes this worker may see, or None when it sees all."""
    marker = os.environ.get("VAWS_SIM_MARKER")
    return None if marker is None else b"VAWS_SIM_MARKER=" + os.fsencode(marker)


def pids() -> Iterator[int]:
    """Yield the pids of all processes, in scope or not."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit():
            yield int(name)


def scan() -> Dict[int, Process]:
    """Return all processes in scope by pid, zombies included when no marker limits the scope."""
    marker = scope()
    table: Dict[int, Process] = {}
    for pid in pids():
        process = read_process(pid)
        if process is not None and (marker is None or has_variable(pid, marker)):
            table[pid] = process
    return table


def boot_id() -> Optional[str]:
    """Return what changes with each start of the machine; the simulated container has one of its own."""
    if os.environ.get("VAWS_SIM"):
        simulated = os.environ.get("VAWS_SIM_BOOT_ID")
        if simulated:
            return simulated
    raw = read_small("/proc/sys/kernel/random/boot_id")
    return None if raw is None else raw.decode("ascii", "replace").strip()

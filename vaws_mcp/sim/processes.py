"""Processes of the simulated container as seen in ``/proc``.

A process is named by pid and start ticks, because a pid alone may already belong to somebody else. Everything that
runs in the container inherits ``VAWS_SIM_MARKER``, so what belongs to it can be found however it was started.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

MARKER_VARIABLE = "VAWS_SIM_MARKER"
ROOT_VARIABLE = "VAWS_SIM_ROOT"


@dataclass(frozen=True)
class Identity:
    """One process, for as long as it lives."""

    pid: int
    start_ticks: int


def _stat(pid: int) -> list[bytes] | None:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None


def identify(pid: int) -> Identity | None:
    """Return the identity of a live process, or None when it is gone or a zombie."""
    fields = _stat(pid)
    if not fields or fields[0] in (b"Z", b"X"):
        return None
    return Identity(pid, int(fields[19]))


def own_identity() -> Identity:
    """Return the identity of this process."""
    identity = identify(os.getpid())
    if identity is None:
        raise RuntimeError("/proc/self/stat cannot be read")
    return identity


def is_alive(identity: Identity) -> bool:
    """Say whether exactly this process lives; zombies do not count."""
    return identify(identity.pid) == identity


def send_signal(identity: Identity, number: int) -> bool:
    """Send a signal to one process after checking that the pid still means it."""
    if not is_alive(identity):
        return False
    try:
        os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def marked(marker: str) -> list[Identity]:
    """List the live processes that carry the container's marker, without this one."""
    needle = f"{MARKER_VARIABLE}={marker}".encode()
    found: list[Identity] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            carries = needle in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        identity = identify(int(entry.name)) if carries else None
        if identity:
            found.append(identity)
    return found


def drain(marker: str, grace_s: float = 1.0, bound_s: float = 5.0) -> tuple[int, list[int]]:
    """End every process of the container, one pid at a time.

    New processes may appear while old ones end, so the scan is repeated until it finds nothing or ``bound_s`` is over.
    Returns the number of processes that were signalled and the pids that survived.
    """
    signalled: set[Identity] = set()
    started = time.monotonic()
    pause = 0.005
    while left := marked(marker):
        elapsed = time.monotonic() - started
        if elapsed > bound_s:
            return len(signalled), [identity.pid for identity in left]
        for identity in left:
            if elapsed >= grace_s:
                send_signal(identity, signal.SIGKILL)
            elif identity not in signalled:
                send_signal(identity, signal.SIGTERM)
            signalled.add(identity)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    return len(signalled), []

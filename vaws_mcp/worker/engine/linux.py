"""The few kernel calls that Python 3.8 does not offer; on other systems they answer that they cannot."""

from __future__ import annotations

import os
import signal
import sys
from functools import lru_cache
from typing import Any, Optional

from ..facts.procfs import Identity, read_process

_PR_SET_CHILD_SUBREAPER = 36
_SYS_PIDFD_OPEN = 434  # the same number on every architecture


@lru_cache(maxsize=None)
def _c_library() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> bool:
    """Make orphaned descendants children of this process instead of PID 1; False where the system has no such thing."""
    if not sys.platform.startswith("linux"):
        return False
    return bool(_c_library().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def pidfd_open(pid: int) -> Optional[int]:
    """Return a descriptor of the process that turns readable at its end, or None (before Linux 5.3, other systems)."""
    opener = getattr(os, "pidfd_open", None)
    try:
        if opener is not None:
            return int(opener(pid))
        if not sys.platform.startswith("linux"):
            return None
        fd = int(_c_library().syscall(_SYS_PIDFD_OPEN, pid, 0))
    except OSError:
        return None
    if fd >= 0:
        os.set_inheritable(fd, False)
        return fd
    return None


def send_signal(identity: Identity, signum: int) -> bool:
    """Send a signal to this very process, never to a later one with its pid.

    Returns False when the process is gone, a zombie, or not ours to signal.
    """
    fd = pidfd_open(identity.pid)
    try:
        process = read_process(identity.pid)
        if process is None or process.identity != identity or not process.alive:
            return False
        sender = getattr(signal, "pidfd_send_signal", None)
        if fd is not None and sender is not None:
            sender(fd, signum)
        else:
            os.kill(identity.pid, signum)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if fd is not None:
            os.close(fd)
    return True

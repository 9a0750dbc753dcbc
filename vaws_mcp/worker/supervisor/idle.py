"""Since when an execution has been idle: its owner says now and then that it is wanted (``execution.touch``).

The owner's word is a new time on a file. Only that it changed counts, not the time itself, so that a clock that is set
does not end anything.
"""

from __future__ import annotations

import os
import time
from typing import Optional

_NAME = "touched"


def touch(folder: str) -> None:
    """Say that an execution is wanted. Raises: OSError."""
    path = os.path.join(folder, _NAME)
    try:
        os.utime(path)
    except FileNotFoundError:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


class Idle:
    """Counts the time since the last use. Units: ``idle_s`` in seconds; None is never too long."""

    def __init__(self, folder: str, idle_s: Optional[float]) -> None:
        self._path = os.path.join(folder, _NAME)
        self._idle_s = idle_s
        self._seen = self._stamp()
        self._active = time.monotonic()

    def _stamp(self) -> Optional[int]:
        try:
            return os.stat(self._path).st_mtime_ns
        except OSError:
            return None

    def used(self) -> None:
        """Count from now on."""
        self._active = time.monotonic()

    def left(self) -> float:
        """Return how long it may still be idle; 0 or less means that it has been idle for too long. Units: seconds."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            self.used()
        return float("inf") if self._idle_s is None else self._idle_s - (time.monotonic() - self._active)

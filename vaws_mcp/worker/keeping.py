"""The jobs that this process keeps: for as long as there are any it lives on, also when its connection has ended."""

from __future__ import annotations

import threading
from typing import Set


class Keeping:
    """A register of job ids. Each is entered before the job is answered and removed by the job's own thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: Set[str] = set()

    def enter(self, job_id: str) -> None:
        """Keep a job."""
        with self._changed:
            self._jobs.add(job_id)

    def leave(self, job_id: str) -> None:
        """Forget a job that has ended."""
        with self._changed:
            self._jobs.discard(job_id)
            self._changed.notify_all()

    def busy(self) -> bool:
        """Tell whether any job is kept."""
        with self._changed:
            return bool(self._jobs)

    def wait(self) -> None:
        """Return when no job is kept any more."""
        with self._changed:
            while self._jobs:
                self._changed.wait()


KEEPING = Keeping()

"""Threads for requests: one for each that is in work, kept for the next when it is done."""

from __future__ import annotations

import queue
import threading
from typing import Callable, Optional

from .request import Waker

Job = Callable[[Waker], None]
IDLE_S = 60.0


class Pool:
    """Runs each job at once in a thread of its own; no job ever waits for another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = 0
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()

    def submit(self, job: Job) -> None:
        """Start ``job`` in an idle thread, or in a new one when none is idle."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._jobs.put(job)
                return
        threading.Thread(target=self._work, args=(job,), name="vaws-request", daemon=True).start()

    def _work(self, first: Job) -> None:
        waker = Waker()
        job: Optional[Job] = first
        while job is not None:
            waker.clear()
            job(waker)
            job = self._next()
        waker.close()

    def _next(self) -> Optional[Job]:
        with self._lock:
            self._idle += 1
        try:
            return self._jobs.get(timeout=IDLE_S)
        except queue.Empty:
            pass
        with self._lock:
            try:
                return self._jobs.get_nowait()
            except queue.Empty:
                self._idle -= 1
                return None

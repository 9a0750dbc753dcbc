"""Start a child process and learn of its end in ``poll``; bury orphans that the worker adopted."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from typing import Dict, List, NamedTuple, Optional, Set

from ..facts.procfs import Identity, identity_of
from .linux import pidfd_open

BURY_INTERVAL_S = 2.0


class Spawn(NamedTuple):
    """How to start a child. Shapes: ``stdio`` holds the three descriptors that become 0, 1 and 2."""

    argv: List[str]
    cwd: str
    env: Dict[str, str]
    stdio: List[int]


class Undertaker:
    """Waits for adopted orphans that have ended, and never for a child that somebody else waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spawning = 0
        self._owned: Set[int] = set()

    def start(self, plan: Spawn) -> subprocess.Popen[bytes]:
        """Start a child in a session of its own that is its starter's to wait for.

        Raises: OSError when it cannot be started.
        """
        with self._lock:
            self._spawning += 1
        pid: Optional[int] = None
        try:
            process = subprocess.Popen(
                plan.argv,
                cwd=plan.cwd,
                env=plan.env,
                stdin=plan.stdio[0],
                stdout=plan.stdio[1],
                stderr=plan.stdio[2],
                start_new_session=True,
                close_fds=False,  # every descriptor of the worker is CLOEXEC; closing them one by one costs time
            )
            pid = process.pid
            return process
        finally:
            with self._lock:
                self._spawning -= 1
                if pid is not None:
                    self._owned.add(pid)

    def release(self, pid: int) -> None:
        """Forget a child whose starter has waited for it."""
        with self._lock:
            self._owned.discard(pid)

    def bury(self) -> int:
        """Wait for ended orphans, without blocking; returns how many there were."""
        buried = 0
        while True:
            with self._lock:
                if self._spawning:
                    return buried
                try:
                    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                except ChildProcessError:
                    return buried
                if ended is None or ended.si_pid in self._owned:
                    return buried
                os.waitpid(ended.si_pid, os.WNOHANG)
            buried += 1

    def work(self) -> None:
        """Bury orphans every two seconds, for as long as the process lives."""
        while True:
            time.sleep(BURY_INTERVAL_S)
            self.bury()


UNDERTAKER = Undertaker()


class Child:
    """A started child. ``exit_fd`` turns readable at its end, and it stays a zombie until ``reap``.

    While it is a zombie its pid and session id cannot be used again, so its family can be found safely.
    """

    def __init__(self, plan: Spawn) -> None:
        self._process = UNDERTAKER.start(plan)
        self.pid = self._process.pid
        self._identity: Optional[Identity] = None
        pidfd = pidfd_open(self.pid)
        self.exit_fd = self._watch() if pidfd is None else pidfd

    def _watch(self) -> int:
        # Kernels before 5.3: a thread waits and closes its end of a pipe.
        read_fd, write_fd = os.pipe()

        def wait() -> None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            os.close(write_fd)

        threading.Thread(target=wait, name="vaws-wait", daemon=True).start()
        return read_fd

    @property
    def identity(self) -> Optional[Identity]:
        """Its identity; None where the system has no ``/proc``."""
        if self._identity is None:
            self._identity = identity_of(self.pid)
        return self._identity

    def kill_unreaped(self, signum: int) -> None:
        """Send a signal; safe without an identity check only because nobody has waited for the child yet."""
        self._process.send_signal(signum)

    def reap(self, timeout_s: float) -> Optional[int]:
        """Wait for the child and return its code, negative for a signal; None when it does not end in time."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        UNDERTAKER.release(self.pid)
        return code

    def close(self) -> None:
        """Close the descriptor; the child itself is not touched."""
        os.close(self.exit_fd)
        if self._process.poll() is None:
            UNDERTAKER.release(self.pid)

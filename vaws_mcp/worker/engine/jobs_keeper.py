"""A job while it runs: a thread of this worker reads its output into the logs and writes down how it ended."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from typing import Any, Dict, Optional, Tuple

from ..facts import procfs
from ..facts.procfs import Identity
from ..keeping import KEEPING
from ..request import Waker
from . import jobs_records as records
from .jobs_control import Control
from .outputs import Budget, open_logs
from .running import Running, ending

_NOTE_DROPS_S = 2.0
_CLEAN_INTERVAL_S = 60.0
_cleaned_at = -_CLEAN_INTERVAL_S


def keep(running: Running) -> None:
    """Make a job of a running command: from now on it is ours, with everything it has open.

    Raises: OSError when its directory, logs or record cannot be written; then it is still the caller's.
    """
    plan = running.plan
    folder = plan.log_dir or ""
    for stream in running.streams:
        if stream.log is None and stream.log_error is not None:
            raise OSError(0, stream.log_error)  # something of its beginning is missing already
    open_logs(running.streams, folder, Budget(plan.log_limit))
    job = Job(running, folder)
    try:
        job.write_record("running")
    except OSError:
        job.close()
        raise
    for stream in running.streams:
        stream.keep_nothing()
    KEEPING.enter(plan.job_id)
    running.known_as_job()
    running.pass_to(job.waker)
    threading.Thread(target=job.work, name="vaws-job", daemon=True).start()
    _clean_now_and_then()


def record_finished(running: Running, end: Dict[str, Any], cause: Optional[str]) -> None:
    """Write the record of a command that ended before it became a job, so that its large output can be read."""
    job = Job(running, running.plan.log_dir or "", alive=False)
    job.end = end
    job.cause = cause
    with contextlib.suppress(OSError):  # the answer says that the log is incomplete
        job.write_record("exited")
    job.close()
    _clean_now_and_then()


def _clean_now_and_then() -> None:
    global _cleaned_at  # noqa: PLW0603 - once a minute for the whole worker
    if time.monotonic() - _cleaned_at >= _CLEAN_INTERVAL_S:
        _cleaned_at = time.monotonic()
        threading.Thread(target=records.clean, name="vaws-job-cleaner", daemon=True).start()


class Job:
    """The keeper's view of one job."""

    def __init__(self, running: Running, folder: str, *, alive: bool = True) -> None:
        self.waker = Waker()
        self.end: Dict[str, Any] = ending(None, None)
        self.cause: Optional[str] = None
        self._running = running
        self._folder = folder
        self._ended_at: Optional[str] = None
        self._began = time.time() - (time.monotonic() - running.started)
        self._drops_noted = (0, time.monotonic())
        self._root = _as_dict(running.child.identity) if alive else None  # its pid may belong to another by now
        self._control: Optional[Control] = None
        if alive:
            with contextlib.suppress(OSError):  # then nobody can write to it, which job_stdin says
                self._control = Control(folder, self.duplicate_stdin, self.end_stdin)
                running.watch(self._control.fileno(), self._control.serve)

    def duplicate_stdin(self) -> Tuple[bytes, int]:
        """Return the state of the standard input, and a descriptor to write to when it is free."""
        stdin = self._running.stdin
        if stdin.pending():
            return b"b", -1
        fd = stdin.duplicate()
        return (b"c" if fd < 0 else b"o"), fd

    def end_stdin(self) -> None:
        """Close the standard input after what was written."""
        self._running.stdin.end()
        self.waker.wake()

    def write_record(self, state: str) -> None:
        """Write the record. Raises: OSError."""
        running, plan = self._running, self._running.plan
        if state == "exited" and self._ended_at is None:
            self._ended_at = records.now()
        record: records.Record = {
            "job_id": plan.job_id,
            "state": state,
            "command": plan.shown,
            "cwd": plan.cwd,
            "tty": plan.tty,
            "stdin_open": state == "running" and running.stdin.write_fd >= 0,
            "began": self._began,
            "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._began)),
            "ended_at": self._ended_at,
            "cause": self.cause,
            **self.end,
            "boot_id": procfs.boot_id(),
            "root": self._root,
            "marker": plan.marker,
            "outputs": sorted(running.outputs),
            "keeper": _as_dict(procfs.identity_of(os.getpid())),
            "streams": {
                stream.name: {"dropped": stream.dropped, "open": not stream.ended, "log_error": stream.log_error}
                for stream in running.streams
            },
        }
        records.write(self._folder, record)

    def work(self) -> None:
        """Serve the job until it has ended and nobody holds its pipes any more."""
        try:
            self._serve_to_the_end()
        except Exception:  # noqa: BLE001 - the boundary of the thread: the record then says that its keeper is lost
            sys.stderr.write(traceback.format_exc())
        finally:
            self.close()
            self._running.release()
            KEEPING.leave(self._running.plan.job_id)

    def close(self) -> None:
        """Close what belongs to the job and not to its command."""
        if self._control is not None:
            self._running.unwatch(self._control.fileno())
            self._control.close()
        self.waker.close()

    def _serve_to_the_end(self) -> None:
        running = self._running
        timeout_s = running.plan.timeout_s
        limit = None if timeout_s is None else running.started + timeout_s
        while not running.exited:
            if limit is not None and self.cause is None and time.monotonic() >= limit:
                self.cause = "timeout"
                running.drain()
            running.serve(self._next_wait(limit))
            self._note_drops()
        running.read_late_output()
        running.stdin.close_pipe()
        self.end = ending(*running.reap())
        self._try_to_record()
        if any(not stream.ended for stream in running.streams):
            while not all(stream.ended for stream in running.streams):
                running.serve(None)
            self._try_to_record()

    def _next_wait(self, limit: Optional[float]) -> Optional[float]:
        if self.cause is not None:
            return 1.0
        return None if limit is None else max(0.0, limit - time.monotonic())

    def _try_to_record(self) -> None:
        """Write the end down; on a full disk the record stays as it was, and the family shows that it ended."""
        with contextlib.suppress(OSError):
            self.write_record("exited")

    def _note_drops(self) -> None:
        """Say in the record of a running job, at most every two seconds, that its log no longer takes everything."""
        dropped = sum(stream.dropped for stream in self._running.streams)
        noted, at = self._drops_noted
        if dropped != noted and (not noted or time.monotonic() - at >= _NOTE_DROPS_S):
            self._drops_noted = (dropped, time.monotonic())
            with contextlib.suppress(OSError):
                self.write_record("running")


def _as_dict(identity: Optional[Identity]) -> Optional[Dict[str, int]]:
    return None if identity is None else {"pid": identity.pid, "start_ticks": identity.start_ticks}

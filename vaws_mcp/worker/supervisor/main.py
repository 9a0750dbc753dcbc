"""The supervisor: starts one command, waits for its end or the order to stop, and leaves when nothing of it lives.

It holds ``supervisor.lock`` for its life, is a subreaper, so that no descendant can leave its family, and never forks
without exec, so that no child inherits the lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from types import FrameType
from typing import Any, Dict, List, Optional

from ..engine import environment
from ..engine.atomic import replace_file
from ..engine.child import Child, Spawn
from ..engine.drain import Descendants, Drained, Pace, drain
from ..engine.linux import become_subreaper
from ..facts import procfs
from ..facts.procfs import Identity
from ..refusal import Refusal
from . import status as records
from .spec import MARKER, Spec, StopTimes, digest_of_environment, load, parse
from .stop import finish, read_stop, signal_root

_LOCK_BOUND_S = 2.0
_IDLE_WAIT_S = 60.0


def supervise(folder: str) -> int:
    """Be the supervisor of the execution in ``folder`` until it is over; returns the exit status."""
    os.setsid()
    os.chdir("/")
    lock = _lock(folder)
    if lock is None or records.read_status(folder) is not None:
        return 3  # another supervisor has it or had it: a command is never started twice
    become_subreaper()
    spec = parse(load(folder))
    return Supervisor(folder, spec).work()


def _lock(folder: str) -> Optional[int]:
    limit = time.monotonic() + _LOCK_BOUND_S
    pause = 0.002
    while True:
        fd = records.try_lock(folder)  # an observer may hold it for a moment
        if fd is not None or time.monotonic() >= limit:
            return fd
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


class Signals:
    """Turns SIGTERM and SIGCHLD into wake-ups of ``wait``. Handlers, unlike SIG_IGN, are not passed on by exec."""

    def __init__(self) -> None:
        self.stop_asked = False
        self._read_fd, write_fd = os.pipe()
        for fd in (self._read_fd, write_fd):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        for signum in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP, signal.SIGINT):
            signal.signal(signum, self._note)
        self._poller = select.poll()
        self._poller.register(self._read_fd, select.POLLIN)

    def _note(self, signum: int, _frame: Optional[FrameType]) -> None:
        if signum == signal.SIGTERM:
            self.stop_asked = True

    def wait(self, seconds: float) -> None:
        """Sleep until a signal comes, at most ``seconds``."""
        if self._poller.poll(int(seconds * 1000) + 1):
            with contextlib.suppress(BlockingIOError):
                os.read(self._read_fd, 4096)


class Supervisor:
    """One execution on its way: queued, starting, running, stopping, exited."""

    def __init__(self, folder: str, spec: Spec) -> None:
        self._folder = folder
        self._spec = spec
        self._signals = Signals()
        self._code: Optional[int] = None
        submitted = round(os.stat(os.path.join(folder, "spec.json")).st_mtime, 3)
        self._status = records.new_status(spec.execution_id, submitted)
        own = procfs.identity_of(os.getpid())
        self._status["supervisor"] = None if own is None else own._asdict()
        records.write_status(folder, self._status)  # without a record nothing is started

    def _write(self, **changes: Any) -> None:
        """Record a change. A full disk is no reason to leave the command alone: the next write says it too."""
        self._status.update(changes)
        try:
            records.write_status(self._folder, self._status)
        except OSError as error:
            sys.stderr.write(f"cannot write status.json: {error}\n")

    def work(self) -> int:
        """Go through all states; returns the exit status."""
        # Between queued and here is the place of admission; without devices there is nothing to wait for.
        try:
            child = self._launch()
        except (Refusal, OSError) as error:
            return self._never_started("cancelled" if self._signals.stop_asked else "failed", str(error))
        root = child.identity
        if root is None:
            return self._never_started("failed", "this system has no /proc")
        reason = self._run(root)
        if reason is not None:
            self._stop(root, reason)
        elif Descendants().members():
            self._write(state="stopping")
        self._end(child, reason)
        return 0

    def _launch(self) -> Child:
        spec = self._spec
        self._write(state="starting")
        env, source = environment.prepare(spec.env_spec, self._check_stop)
        for name, value in spec.env.items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        env[MARKER] = spec.execution_id
        env["SPT_NOENV"] = "1"  # keeps a process that changes its title from overwriting the marker
        if spec.devices is not None:
            env["ASCEND_RT_VISIBLE_DEVICES"] = ",".join(spec.devices)
        cwd = environment.home() if spec.cwd is None else os.path.expanduser(spec.cwd)
        self._check_stop()
        self._write_receipt(cwd, source)
        child = self._start(cwd, env)
        root = child.identity
        entry = None if root is None else {"pid": root.pid, "start_ticks": root.start_ticks, "sid": root.pid}
        self._write(state="running", started_at=records.now(), root=entry)
        return child

    def _check_stop(self) -> None:
        if self._signals.stop_asked:
            raise Refusal("cancelled", "stopped before it was started")

    def _start(self, cwd: str, env: Dict[str, str]) -> Child:
        if not os.path.isdir(cwd):
            raise Refusal("not_found", f"{cwd}: the working directory does not exist")
        stdio: List[int] = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
        try:
            for name in ("stdout.log", "stderr.log"):
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                stdio.append(os.open(os.path.join(self._folder, name), flags, 0o600))
            return Child(Spawn(self._spec.argv, cwd, env, stdio))
        finally:
            for fd in stdio:
                os.close(fd)

    def _write_receipt(self, cwd: str, env_source: str) -> None:
        receipt = {
            "schema": self._status["schema"],
            "execution_id": self._spec.execution_id,
            "argv": self._spec.argv,
            "cwd": cwd,
            "user_env": digest_of_environment(self._spec.env),
            "env_source": env_source,
            "devices": self._spec.devices,
            "ports": self._spec.ports,
            "python": sys.version.split()[0],
            "boot_id": self._status["boot_id"],
            "started_at": records.now(),
        }
        path = os.path.join(self._folder, "receipt.json")
        replace_file(path, json.dumps(receipt).encode("ascii"))

    def _never_started(self, reason: str, message: str) -> int:
        if reason == "cancelled":
            order = read_stop(self._folder, self._spec.stop)
            self._status.update(stop_requested_at=order["requested_at"], stop_reason=order["reason"])
        ending = {"reason": reason, "code": None, "signal": None}
        self._write(state="exited", ended_at=records.now(), exit=ending, note=message, resources_released=True)
        return 0

    def _run(self, root: Identity) -> Optional[str]:
        """Wait for the root's end (None), the order to stop (``cancelled``) or the time limit (``timeout``)."""
        limit = None if self._spec.timeout_s is None else time.monotonic() + self._spec.timeout_s
        while not self._root_ended(root):
            if self._signals.stop_asked:
                return "cancelled"
            left = _IDLE_WAIT_S if limit is None else limit - time.monotonic()
            if left <= 0:
                return "timeout"
            self._signals.wait(min(left, _IDLE_WAIT_S))
        return None

    def _root_ended(self, root: Identity) -> bool:
        """Tell whether the root has ended."""
        code = self._bury().get(root.pid)
        if code is not None and self._code is None:
            self._code = code
        return self._code is not None

    def _bury(self) -> Dict[int, int]:
        """Wait for all that has ended, without blocking; returns codes by pid, negative for signals."""
        codes: Dict[int, int] = {}
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return codes
            if pid == 0:
                return codes
            exited = os.WIFEXITED(wait_status)
            codes[pid] = os.WEXITSTATUS(wait_status) if exited else -os.WTERMSIG(wait_status)

    def _stop(self, root: Identity, reason: str) -> None:
        order = read_stop(self._folder, self._spec.stop)
        why = order["reason"] if reason == "cancelled" else "the time limit was reached"
        self._write(state="stopping", stop_requested_at=order["requested_at"], stop_reason=why)
        times: StopTimes = order["times"]
        steps = ((signal.SIGINT, times.int_s), (signal.SIGTERM, times.term_s), (signal.SIGKILL, times.kill_s))
        for signum, bound_s in steps:
            signal_root(root, signum)
            limit = time.monotonic() + bound_s
            while not self._root_ended(root) and time.monotonic() < limit:
                self._signals.wait(limit - time.monotonic())
            if self._code is not None:
                return

    def _end(self, child: Child, reason: Optional[str]) -> None:
        family = Descendants()
        drained = self._drain(family, child)
        self._bury()
        code = self._code
        signum = None if code is None or code >= 0 else -code
        why = reason or ("succeeded" if code == 0 else "failed")
        ending = {"reason": why, "code": code if signum is None else None, "signal": signum}
        self._status.update(state="exited", ended_at=records.now(), exit=ending)
        finish(self._status, drained, self._spec.ports, family)
        self._write()

    def _drain(self, family: Descendants, child: Child) -> Drained:
        times: StopTimes = read_stop(self._folder, self._spec.stop)["times"]
        root = child.identity

        def pause(seconds: float) -> None:
            self._signals.wait(seconds)
            if root is not None:
                self._root_ended(root)

        return drain(family, Pace(times.term_s, times.kill_s, pause))

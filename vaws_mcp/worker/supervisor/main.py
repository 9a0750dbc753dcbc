"""The supervisor: starts one command, waits for its end or the order to stop, and leaves when nothing of it lives.

It holds ``supervisor.lock`` for its life, is a subreaper, so that no descendant can leave its family, and never forks
without exec, so that no child inherits the lock.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Callable, Dict, List, Optional, Tuple

from ..engine import environment
from ..engine.child import Child
from ..engine.drain import Descendants, Drained, Pace, drain
from ..engine.linux import become_subreaper
from ..facts.procfs import Identity
from ..refusal import Refusal
from . import launch
from . import status as records
from .admission import Admission, blocked_by
from .grant import Grant
from .idle import Idle
from .journal import Journal
from .probing import Probing
from .release import devices_free
from .reservation import Reservation
from .signals import Signals
from .spec import Spec, StopTimes, load, parse
from .stop import finish, read_stop, signal_root

_LOCK_BOUND_S = 2.0
_LOOK_EVERY_S = 5.0


def supervise(folder: str) -> int:
    """Be the supervisor of the execution in ``folder`` until it is over; returns the exit status."""
    os.setsid()
    os.chdir("/")
    lock = _lock(folder)
    if lock is None or records.read_status(folder) is not None:
        return 3  # another supervisor has it or had it: a command is never started twice
    become_subreaper()
    spec = parse(load(folder))
    return Supervisor(folder, spec, lock).work()


def _lock(folder: str) -> Optional[int]:
    limit = time.monotonic() + _LOCK_BOUND_S
    pause = 0.002
    while True:
        fd = records.try_lock(folder)  # an observer may hold it for a moment
        if fd is not None or time.monotonic() >= limit:
            return fd
        time.sleep(pause)
        pause = min(pause * 2, 0.1)


class Supervisor:
    """One execution on its way: queued, starting, running, stopping, exited."""

    def __init__(self, folder: str, spec: Spec, lock_fd: int) -> None:
        self._folder = folder
        self._spec = spec
        self._signals = Signals()
        self._code: Optional[int] = None
        self._journal = Journal(folder, spec, lock_fd)
        self._admission = Admission(spec, self._journal, self._signals, self._probing)
        self._link: List[int] = []

    def work(self) -> int:
        """Go through all states; returns the exit status."""
        try:
            grant = self._admission.granted()
        except (Refusal, OSError) as error:
            return self._never_started(error)
        self._link = [] if grant.link is None else [grant.link.fd]
        try:
            return self._hold(grant) if self._spec.needs.hold is not None else self._command(grant)
        except (Refusal, OSError) as error:
            grant.release()
            return self._never_started(error)

    def _probing(self) -> Probing:
        """Return the probe for the time before the launch, which an order to stop ends."""
        return self._probing_until(self._signals.check)

    def _probing_until(self, check: Callable[[], None]) -> Probing:
        env, _source = environment.prepare(self._spec.env_spec, check)
        return Probing(env, check)

    def _command(self, grant: Grant) -> int:
        child = self._launch(grant)
        root = child.identity
        if root is None:
            raise Refusal("unsupported", "this system has no /proc")
        reason = self._run(root, grant)
        if reason is not None:
            self._stop(root, reason)
        elif Descendants().members():
            self._journal.write(state="stopping")
        self._end(child, reason, grant)
        return 0

    def _launch(self, grant: Grant) -> Child:
        self._journal.write(state="starting")
        ready = launch.prepared(self._spec, grant, self._signals.check)
        self._signals.check()
        launch.write_receipt(self._folder, self._spec, ready, self._journal.status)
        child = launch.start(self._folder, self._spec.argv, ready)
        root = child.identity
        entry = None if root is None else {"pid": root.pid, "start_ticks": root.start_ticks, "sid": root.pid}
        self._journal.write(state="running", started_at=records.now(), root=entry)
        return child

    def _hold(self, grant: Grant) -> int:
        wish = self._spec.needs.hold
        if wish is None:
            return 0
        reservation = Reservation(
            self._folder, grant, self._signals, Idle(self._folder, wish.idle_s), lambda: self._look(grant)
        )
        self._journal.write(state="running", started_at=records.now())
        why = reservation.keep(wish)
        order = read_stop(self._folder, self._spec.stop)
        if why == "cancelled":
            self._journal.status.update(stop_requested_at=order["requested_at"], stop_reason=order["reason"])
        self._journal.write(state="stopping")
        left = reservation.close(None if why == "over" else sum(order["times"]))
        grant.release()
        notes = {"over": f"held for {wish.for_s} s as asked", "idle": f"unused for {wish.idle_s} s"}
        names = ", ".join(str(user["execution_id"]) for user in left)
        note = f"still used by {names}" if left else notes.get(why)
        reasons = {"over": "succeeded", "idle": "timeout"}
        ending = {"reason": reasons.get(why, "cancelled"), "code": None, "signal": None}
        self._journal.write(
            state="exited", ended_at=records.now(), exit=ending, note=note, survivors=left, resources_released=not left
        )
        return 0

    def _look(self, grant: Grant) -> None:
        """Look after what could be taken from under us: the record and the lock files."""
        self._journal.watch()
        lost = [key for key in grant.keep(self._admission.record) if not key.startswith("logic")]
        if lost:
            why = "their locks were deleted, and others have them now: they may be in use twice"
            self._journal.note(note=f"{', '.join(lost)}: {why}")

    def _never_started(self, error: Exception) -> int:
        drained = drain(Descendants(), Pace(0.0))  # a probe that was under way
        reason = "cancelled" if self._signals.stop_asked else "failed"
        if reason == "cancelled":
            order = read_stop(self._folder, self._spec.stop)
            self._journal.status.update(stop_requested_at=order["requested_at"], stop_reason=order["reason"])
        elif isinstance(error, Refusal):
            self._journal.status["blocked"] = blocked_by(error)
        ending = {"reason": reason, "code": None, "signal": None}
        released = not drained.survivors
        self._journal.write(
            state="exited",
            ended_at=records.now(),
            exit=ending,
            note=str(error),
            queue=None,
            resources_released=released,
        )
        return 0

    def _run(self, root: Identity, grant: Grant) -> Optional[str]:
        """Wait for the end and return why it is to come: None is the root's own end.

        ``cancelled`` is an order, ``timeout`` the time limit, ``idle`` that nobody has used it for too long.
        """
        limit = None if self._spec.timeout_s is None else time.monotonic() + self._spec.timeout_s
        idle = Idle(self._folder, self._spec.idle_s)
        while not self._root_ended(root):
            if self._signals.stop_asked:
                return "cancelled"
            left = float("inf") if limit is None else limit - time.monotonic()
            if left <= 0:
                return "timeout"
            if idle.left() <= 0:
                return "idle"
            if self._signals.wait(min(left, idle.left(), _LOOK_EVERY_S), self._link):
                self._link = []  # the reservation has ended; its leases are ours alone now
                grant.inherit(self._admission.record)
            self._look(grant)
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
        reasons = {"timeout": "the time limit was reached", "idle": f"nobody used it for {self._spec.idle_s} s"}
        why = reasons.get(reason, order["reason"])
        self._journal.write(state="stopping", stop_requested_at=order["requested_at"], stop_reason=why)
        times: StopTimes = order["times"]
        steps = ((signal.SIGINT, times.int_s), (signal.SIGTERM, times.term_s), (signal.SIGKILL, times.kill_s))
        for signum, bound_s in steps:
            signal_root(root, signum)
            limit = time.monotonic() + bound_s
            while not self._root_ended(root) and time.monotonic() < limit:
                self._signals.wait(limit - time.monotonic())
            if self._code is not None:
                return

    def _end(self, child: Child, reason: Optional[str], grant: Grant) -> None:
        family = Descendants()
        drained = self._drain(family, child)
        self._bury()
        code = self._code
        signum = None if code is None or code >= 0 else -code
        why = reason or ("succeeded" if code == 0 else "failed")
        why = "timeout" if why == "idle" else why
        ending = {"reason": why, "code": code if signum is None else None, "signal": signum}
        status = self._journal.status
        if grant.devices:
            self._journal.write(state="stopping")
        finish(status, drained, family, lambda: self._devices_free(grant))
        grant.release()  # before anybody is told that it is released
        status.update(state="exited", ended_at=records.now(), exit=ending)
        self._journal.write()

    def _devices_free(self, grant: Grant) -> Tuple[bool, Optional[str]]:
        wish = self._spec.needs.devices
        if wish is None or not grant.devices:
            return True, None
        try:
            probing = self._probing_until(lambda: None)
        except Refusal as refusal:
            return False, f"whether the devices are free again is not known: {refusal.message}"
        logics = [device.logic for device in grant.devices]
        return devices_free(logics, wish, probing.now, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self._signals.wait(seconds)

    def _drain(self, family: Descendants, child: Child) -> Drained:
        times: StopTimes = read_stop(self._folder, self._spec.stop)["times"]
        root = child.identity

        def pause(seconds: float) -> None:
            self._signals.wait(seconds)
            if root is not None:
                self._root_ended(root)

        return drain(family, Pace(times.term_s, times.kill_s, pause))

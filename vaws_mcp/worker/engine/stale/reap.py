"""End stale processes: each signal goes to one process that passes all five tests at that moment."""

from __future__ import annotations

import signal
import time
from typing import Callable, Dict, List, NamedTuple, Set

from ...facts.procfs import Identity, Process
from .judge import Verdict, topmost

_FIRST_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 0.25


class Pace(NamedTuple):
    """How long each phase may take. Units: seconds.

    An engine that is told to end takes its workers along in about five seconds, so they are told later.
    """

    top_s: float = 8.0
    term_s: float = 4.0
    kill_s: float = 5.0


class World(NamedTuple):
    """What reaping does to the machine: look, signal one process, wait."""

    find: Callable[[], List[Verdict]]
    send: Callable[[Identity, int], bool]
    pause: Callable[[float], None]


class Reaped(NamedTuple):
    """All that was found stale, by identity, and which of them were signalled."""

    matched: Dict[Identity, Process]
    signalled: Set[Identity]


def reap(world: World, pace: Pace) -> Reaped:
    """Tell the topmost to end, then all that are left, then kill; two empty looks in a row end it."""
    reaped = Reaped({}, set())
    phases = ((signal.SIGTERM, True, pace.top_s), (signal.SIGTERM, False, pace.term_s))
    for signum, only_topmost, bound_s in (*phases, (signal.SIGKILL, False, pace.kill_s)):
        if _phase(world, reaped, (int(signum), only_topmost, time.monotonic() + bound_s)):
            break
    return reaped


def _phase(world: World, reaped: Reaped, step: tuple[int, bool, float]) -> bool:
    """Return whether nobody is left."""
    signum, only_topmost, limit = step
    sent: Set[Identity] = set()
    tops: Set[Identity] = set()
    pause_s, empty = _FIRST_PAUSE_S, 0
    while True:
        stale = [verdict.seen.process for verdict in world.find() if verdict.matched]
        reaped.matched.update((process.identity, process) for process in stale)
        if not sent:
            tops.update(process.identity for process in topmost(stale))
        ordered = sorted(stale, key=lambda process: process.identity not in tops)
        for process in ordered:
            due = process.identity not in sent and (not only_topmost or process.identity in tops)
            if due and world.send(process.identity, signum):
                sent.add(process.identity)
                reaped.signalled.add(process.identity)
        # A process can be missed once, when it loses its parent while /proc is being read.
        empty = 0 if stale else empty + 1
        if empty == 2 or time.monotonic() >= limit:
            return not stale
        world.pause(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)

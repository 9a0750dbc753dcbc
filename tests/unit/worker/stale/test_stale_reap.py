"""How stale processes are ended, in a world that changes between any two looks at it."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from stale_forest import facts, process, seen, violated, worlds

from vaws_mcp.worker.engine.stale.judge import Facts, Seen, Verdict, judge
from vaws_mcp.worker.engine.stale.reap import Pace, Reaped, World, reap
from vaws_mcp.worker.facts.procfs import Identity

QUICK = Pace(0.004, 0.004, 0.004)
INIT = seen(process(1, 0, "tini"), "tini")
ENGINE = seen(process(50, 1, "VLLM::EngineCor", sid=40), "VLLM::EngineCore")
WORKERS = [seen(process(pid, 50, "VLLM::Worker", sid=40), "VLLM::Worker") for pid in (60, 61)]


@dataclass
class Machine:
    """A process table that answers signals: those in ``deaf`` hear only SIGKILL, those in ``stuck`` nothing."""

    table: list[Seen]
    deaf: set[int] = field(default_factory=set[int])
    stuck: set[int] = field(default_factory=set[int])
    known: Facts = field(default_factory=facts)
    heard: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    takes_along: bool = False

    def find(self) -> list[Verdict]:
        return judge(self.table, self.known)

    def send(self, identity: Identity, signum: int) -> bool:
        self.heard.append((identity.pid, signum))
        target = next((one for one in self.table if one.process.identity == identity), None)
        if target is None or identity.pid in self.stuck:
            return False
        if signum == signal.SIGKILL or identity.pid not in self.deaf:
            self.end(identity.pid)
        return True

    def end(self, pid: int) -> None:
        gone = {pid} | (
            {one.process.pid for one in self.table if one.process.ppid == pid} if self.takes_along else set()
        )
        kept = [one for one in self.table if one.process.pid not in gone]
        self.table[:] = [
            one._replace(process=one.process._replace(ppid=1)) if one.process.ppid in gone else one for one in kept
        ]

    def reap(self) -> Reaped:
        return reap(World(self.find, self.send, time.sleep), QUICK)


def test_an_engine_is_told_first_and_takes_its_workers_along() -> None:
    machine = Machine([INIT, *WORKERS, ENGINE], takes_along=True)
    reaped = machine.reap()
    assert machine.heard == [(50, signal.SIGTERM)]
    assert {identity.pid for identity in reaped.matched} == {50, 60, 61}
    assert machine.table == [INIT]


def test_it_returns_as_soon_as_nothing_is_left() -> None:
    machine = Machine([INIT, *WORKERS, ENGINE], takes_along=True)
    begin = time.monotonic()
    reap(World(machine.find, machine.send, time.sleep), Pace(20.0, 20.0, 20.0))
    assert time.monotonic() - begin < 5
    assert machine.table == [INIT]


def test_workers_that_stay_are_told_after_the_engine() -> None:
    machine = Machine([INIT, *WORKERS, ENGINE])
    machine.reap()
    assert machine.heard == [(50, signal.SIGTERM), (60, signal.SIGTERM), (61, signal.SIGTERM)]


def test_the_deaf_are_killed_topmost_first() -> None:
    machine = Machine([INIT, *WORKERS, ENGINE], deaf={50, 60, 61})
    machine.reap()
    kills = [pid for pid, signum in machine.heard if signum == signal.SIGKILL]
    assert kills == [50, 60, 61]
    assert machine.table == [INIT]


def test_what_cannot_be_ended_does_not_hold_the_cleanup_up() -> None:
    machine = Machine([INIT, ENGINE], stuck={50})
    begin = time.monotonic()
    reaped = machine.reap()
    assert time.monotonic() - begin < 2
    assert not reaped.signalled
    assert set(reaped.matched) == {ENGINE.process.identity}
    assert ENGINE in machine.table


def test_nothing_is_signalled_where_nothing_is_stale() -> None:
    server = seen(process(40, 1, "vllm"), "/opt/venv/bin/python3 /opt/venv/bin/vllm serve m")
    machine = Machine([INIT, server, ENGINE._replace(process=ENGINE.process._replace(ppid=40))])
    assert machine.reap() == Reaped({}, set())
    assert machine.heard == []


@settings(max_examples=300, deadline=None)
@given(worlds(), st.integers(0, 1 << 30))
def test_in_a_changing_world_every_signal_hits_a_process_that_passes_all_five_tests(
    world: tuple[list[Seen], Facts], seed: int
) -> None:
    table, known = world
    chance = random.Random(seed)  # noqa: S311
    machine = Machine(list(table), known=known, deaf={one.process.pid for one in table if chance.random() < 0.5})
    at_look: list[Seen] = []

    def find() -> list[Verdict]:
        at_look[:] = machine.table
        return machine.find()

    def send(identity: Identity, signum: int) -> bool:
        target = next(one for one in at_look if one.process.identity == identity)
        assert violated(target, at_look, machine.known) == []
        return machine.send(identity, signum)

    def pause(seconds: float) -> None:
        """Somebody else ends, is adopted, gives its pid to another process, or joins a live execution."""
        time.sleep(min(seconds, 0.0005))
        if not machine.table:
            return
        one = chance.choice(machine.table)
        index = machine.table.index(one)
        ticks, event = one.process.start_ticks + 1, chance.randrange(5)
        if event == 0:
            machine.end(one.process.pid)
        elif event == 1:
            machine.table[index] = one._replace(process=one.process._replace(ppid=1))
        elif event == 2:
            machine.table[index] = one._replace(process=one.process._replace(start_ticks=ticks, uid=7))
        elif event == 3:
            machine.known = machine.known._replace(members=machine.known.members | {one.process.identity})

    reap(World(find, send, pause), Pace(0.003, 0.003, 0.003))

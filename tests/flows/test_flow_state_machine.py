"""Whatever dies, in whatever order: no device has two holders, nothing is called ended that lives, nothing is lost.

Real processes are driven at random against a simulated container of its own. By default it is a dozen steps;
`VAWS_STATE_STEPS` (a total of steps) has a hypothesis state machine take them, `VAWS_STATE_SEED` makes either another
one. Nothing is shrunk: processes do not repeat themselves, so the failure shows the steps that led to it.
"""

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flow_bystanders import Bystanders
from flow_cable import Cable
from flow_driver import FOREIGN, Driver, Place, put_between, start_bystanders, started
from flow_lookout import FINAL, Lookout
from flow_world import Json, signal_run, until
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from vaws_mcp import sim
from vaws_mcp.sim.container import environment

FAMILY = str(Path(__file__).with_name("flow_family.py"))
STEPS = int(os.environ.get("VAWS_STATE_STEPS", "0"))
SEED = int(os.environ.get("VAWS_STATE_SEED", "4"))
EXAMPLE_STEPS = 40
EXAMPLES = max(2, STEPS // EXAMPLE_STEPS)
GENTLE = ("plain", "heir", "leaver", "short")
# A deaf family takes half a minute to be ended.
KINDS = (*GENTLE, *GENTLE, "deaf") if STEPS else GENTLE
LIMIT_S = 120 + STEPS * 20

ASKED: list[Json] = [
    *({}, {"npu_count": 1}, {"npu_count": 1}, {"npu_count": 2}),
    *({"devices": ["0"]}, {"devices": ["1"]}, {"devices": ["1", "2"]}, {"devices": [str(FOREIGN)]}),
]
asked_devices = st.sampled_from(ASKED)
any_one = st.integers(0, 30)
moment = st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.4, 0.8])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    state_dir = tmp_path / ".vaws-local"
    bystanders = Bystanders(tmp_path)
    try:
        world = started(state_dir, tmp_path / "container")
        with Cable(world.facts["host"], world.facts["port"]) as cable:
            put_between(world, cable)
            start_bystanders(world, bystanders)
            yield Place(world, cable, Lookout(world), bystanders)
    finally:
        stopped = sim.stop(state_dir)
        bystanders.end()
    assert stopped["stopped"]


class Machine(Driver):
    """All that may happen."""

    def run_arguments(self, kind: str, devices: Json, service: str | None) -> Json:
        named = {"service": service} if service else {}
        return {"command": ["python3", "-IS", FAMILY, kind], "wait_s": 1, **devices, **named}

    def request(self, what: str, devices: Json, number: int) -> tuple[str, Json]:
        """Return a call that changes something."""
        if what == "stop" and (chosen := self.one_of(number)):
            return "vaws_execution", {"action": "stop", "execution_id": chosen, "wait_s": 10}
        if what == "hold" and devices:
            return "npu_hold", {"duration": "10m", "wait_s": 1, **devices}
        if what == "restart":
            return "vaws_run", {**self.run_arguments("heir", devices, "a"), "restart": True}
        return "vaws_run", self.run_arguments(KINDS[number % len(KINDS)], devices, None)

    @rule(kind=st.sampled_from(KINDS), devices=asked_devices, service=st.sampled_from([None, None, "a", "b"]))
    def run(self, kind: str, devices: Json, service: str | None) -> None:
        self.call("vaws_run", **self.run_arguments(kind, devices, service))

    @rule(kind=st.sampled_from(KINDS), devices=asked_devices)
    def replace(self, kind: str, devices: Json) -> None:
        self.call("vaws_run", **self.run_arguments(kind, devices, "a"), restart=True)

    @rule(devices=asked_devices.filter(bool))
    def hold(self, devices: Json) -> None:
        self.call("npu_hold", duration="10m", wait_s=1, **devices)

    @rule(number=any_one, kind=st.sampled_from(KINDS), first_only=st.booleans())
    def run_in_a_hold(self, number: int, kind: str, first_only: bool) -> None:
        lookout = self.place.lookout
        holds = [one for one in self.living() if lookout.record(one).get("root") is None and lookout.record(one)]
        if holds:
            chosen = holds[number % len(holds)]
            held = [str(device["logic"]) for device in lookout.record(chosen)["devices"] or []]
            devices = {"devices": held[:1]} if first_only and held else {}
            self.call("vaws_run", **self.run_arguments(kind, devices, None), reservation=chosen)

    @rule(devices=st.sampled_from([{"npu_count": 1}, {"devices": ["none"]}]), restart=st.booleans())
    def serve(self, devices: Json, restart: bool) -> None:
        model = self.place.world.facts["model"]
        self.call("serve_start", model=model, restart=restart, wait_s=3, **devices)

    @rule()
    def serve_status(self) -> None:
        answer = self.call("serve_status", token_timeout=5)
        if (answer.get("error") or {}).get("code") == "not_found":
            self.fail(f"a service is not found: {answer}")

    @rule()
    def serve_stop(self) -> None:
        self.call("serve_stop")

    @precondition(lambda self: self.task is not None and len(self.task.runs) < 2)
    @rule()
    def start_comparison(self) -> None:
        assert self.task is not None
        states = ("first=main", "second=slow-decode")
        self.call("bench_compare", **self.place.world.arguments(self.task, *states, npu_count=1, wait_s=0))

    @precondition(lambda self: self.task is not None and self.task.runs != [])
    @rule()
    def kill_run(self) -> None:
        assert self.task is not None
        with contextlib.suppress(OSError, AssertionError):  # it has ended by itself
            signal_run(self.task.runs[-1], signal.SIGKILL)
            self.note("kill run")

    @rule(number=any_one, wait_s=st.sampled_from([0, 1, 10, 10]))
    def stop(self, number: int, wait_s: int) -> None:
        if chosen := self.one_of(number):
            answer = self.call("vaws_execution", action="stop", execution_id=chosen, wait_s=wait_s)
            if answer["outcome"] == "success" and answer["state"] in FINAL and not answer["resources_released"]:
                self.fail(f"a stop succeeded without release: {answer}")
            self.judge({chosen: answer})

    @rule(number=any_one, until=st.sampled_from(["running", "exited", "released"]))
    def wait(self, number: int, until: str) -> None:
        if chosen := self.one_of(number):
            answer = self.call("vaws_execution", action="wait", execution_id=chosen, until=until, wait_s=1)
            if "state" in answer:
                self.judge({chosen: answer})

    @rule()
    def kill_server(self) -> None:
        self.note("kill server")
        self.new_server()

    @rule(number=any_one)
    def kill_supervisor(self, number: int) -> None:
        self.kill_part(number, "supervisor")

    @rule(number=any_one)
    def kill_root(self, number: int) -> None:
        self.kill_part(number, "root")

    @rule()
    def kill_worker(self) -> None:
        self.note("kill workers")
        self.kill_workers()

    @precondition(lambda self: self.place.cable.connections)
    @rule()
    def cut(self) -> None:
        self.note(f"cut {self.place.cable.cut()} connections")

    @precondition(lambda self: STEPS > 0 and len(self.steps) > 20 and "power cut" not in self.steps)
    @rule()
    def power_cut(self) -> None:
        self.note("power cut")
        self.place.power_cut()

    @rule(
        what=st.sampled_from(["run", "run", "hold", "stop", "restart"]),
        harm=st.sampled_from(["server", "worker", "cut", "supervisor"]),
        devices=asked_devices,
        number=any_one,
        after_s=moment,
    )
    def harm_a_call(self, what: str, harm: str, devices: Json, number: int, after_s: float) -> None:
        """Let something die while a call is under way."""
        call = self.begin(*self.request(what, devices, number))
        time.sleep(after_s)
        self.note(f"  after {after_s} s: {harm} is harmed")
        if harm == "server":
            self.new_server()
            return
        if harm == "worker":
            self.kill_workers()
        elif harm == "cut":
            self.place.cable.cut()
        else:
            self.kill_part(number if what == "stop" else -1, "supervisor")
        self.finish(call)

    @precondition(lambda self: len(self.place.bystanders.all) < 6)
    @rule(number=any_one)
    def stand_beside(self, number: int) -> None:
        """Start a process that looks nearly as if it belonged to an execution."""
        if chosen := self.one_of(number):
            self.note(f"bystander of {chosen}")
            env = {"VAWS_EXECUTION_ID": f"{chosen}0", "OTHER_VAWS_EXECUTION_ID": chosen, "PATH": os.environ["PATH"]}
            one = self.place.bystanders.add("beside", env, f"VAWS_EXECUTION_ID={chosen}", "supervise", chosen)
            until(lambda: one.ready, 60, "the bystander is there")


def steps_of(machine: Machine, chance: random.Random) -> list[Callable[[], None]]:
    """Return what matters most, with chance in it: first what fills the machine, then, in any order, what happens."""

    def harmed(what: str) -> None:
        harm, after_s = chance.choice(["server", "worker", "cut", "supervisor"]), chance.choice([0.0, 0.1, 0.4])
        machine.harm_a_call(what, harm, chance.choice(ASKED), chance.randrange(30), after_s)

    def killed(part: str) -> None:
        machine.kill_part(chance.randrange(30), part)

    run = partial(machine.run, chance.choice(GENTLE), chance.choice(ASKED), "a")
    hold = partial(machine.hold, {"npu_count": 1})
    compare = [machine.start_comparison, hold, machine.kill_run]
    serve = [hold, partial(machine.serve, {"npu_count": 1}, restart=False)]
    then: list[Callable[[], None]] = [
        lambda: machine.run_in_a_hold(chance.randrange(30), chance.choice(GENTLE), first_only=True),
        lambda: machine.stop(chance.randrange(30), 10),
        lambda: machine.stand_beside(chance.randrange(30)),
        *(partial(killed, part) for part in ("supervisor", "supervisor", "root")),
        *(partial(harmed, what) for what in ("run", "stop", "restart", "hold")),
    ]
    # A comparison and a service would lock each other's source tree.
    return [run, *chance.choice((compare, serve)), *chance.sample(then, 5)]


def test_the_lookout_sees_what_is_wrong(place: Place) -> None:
    machine = Machine(place)
    machine.open()
    ran = machine.call("vaws_run", **machine.run_arguments("plain", {"devices": ["0"]}, None))
    one, row = ran["execution_id"], {"state": "exited", "resources_released": True}
    env = environment(Path(place.world.facts["root"]), place.world.facts["marker"], place.world.facts["boot_id"])
    other = {**env, "VAWS_EXECUTION_ID": "another", "ASCEND_RT_VISIBLE_DEVICES": "0"}
    assert place.lookout.wrong({one: ran}, machine.ids) == []
    assert "exited was said of" in place.lookout.wrong({one: row}, machine.ids)[0]
    beside = place.bystanders.add("intruder", other, logic="0")
    until(lambda: beside.ready, 60, "the intruder is there")
    said = "; ".join(place.lookout.wrong({one: ran}, machine.ids))
    beside.process.send_signal(signal.SIGTERM)
    until(place.bystanders.harms, 60, "the signal is seen")
    assert all(what in said for what in ("npu-smi shows device 0", "device frozenset({0})", "nobody knows"))
    assert str(os.getpid()) in place.bystanders.harms()[0]
    machine.teardown()


@pytest.mark.slow
@pytest.mark.skipif(STEPS > 0, reason="the long form does more")
def test_a_few_deaths_give_no_device_to_two_and_lose_nothing_that_runs(place: Place) -> None:
    """hypothesis tries the simplest things first, over and over: too slow a start for a short test."""
    machine = Machine(place)
    try:
        machine.open()
        for step in steps_of(machine, random.Random(SEED)):  # noqa: S311 - chance, not secrecy
            step()
            machine.nothing_is_wrong()
    finally:
        machine.teardown()


@pytest.mark.slow
@pytest.mark.skipif(STEPS == 0, reason="takes minutes; VAWS_STATE_STEPS=400 runs it")
@pytest.mark.timeout(LIMIT_S)
def test_no_order_of_deaths_gives_a_device_to_two_or_loses_what_runs(place: Place) -> None:
    factory: Any = seed(SEED)(lambda: Machine(place))
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=EXAMPLE_STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        report_multiple_bugs=False,
        print_blob=False,
    )
    try:
        run_state_machine_as_test(factory, settings=chosen)
    except BaseException:
        if place.found:
            pytest.fail(place.found[0], pytrace=False)
        raise

"""The base of the state machine: a task on a simulated container, calls, kills, and what must hold after each step."""

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flow_bystanders import Bystanders
from flow_cable import Cable
from flow_lookout import FINAL, Lookout
from flow_server import RawServer
from flow_world import Json, Task, World, until
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from vaws_mcp import sim
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint
from vaws_mcp.sim.container import environment

DEVICES = 4
FOREIGN = 3  # somebody else's program is on this device all the time
TRACE = os.environ.get("VAWS_STATE_TRACE")  # a file that shows the steps as they are made


@dataclass
class Place:
    """The container with its surroundings, for all examples; ``found`` is the first thing that went wrong."""

    world: World
    cable: Cable
    lookout: Lookout
    bystanders: Bystanders
    found: list[str] = field(default_factory=list[str])

    def power_cut(self) -> None:
        """End everything in the container at once and start it anew, with its files and another boot id."""
        while running := self.world.processes():
            for pid in running:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        sim.stop(self.world.state_dir)
        self.world = started(self.world.state_dir, Path(self.world.facts["root"]))
        self.lookout = Lookout(self.world)
        self.cable.target = (self.world.facts["host"], self.world.facts["port"])
        put_between(self.world, self.cable)


def start_bystanders(world: World, bystanders: Bystanders) -> None:
    """Start a foreign vLLM, a foreign job on a device of the container, and a process of somebody else's execution."""
    facts = world.facts
    inside = environment(Path(facts["root"]), "of-nobody", facts["boot_id"])
    # The word keeps a stale cleanup of somebody else on this machine away.
    bystanders.add("vllm", dict(os.environ), title="VLLM::EngineCore of vaws bystander")
    bystanders.add("job", {**inside, "ASCEND_RT_VISIBLE_DEVICES": str(FOREIGN)}, logic=str(FOREIGN))
    bystanders.add("other", {**inside, "VAWS_EXECUTION_ID": "execution-20260101T000000-00000000"})
    until(lambda: all(one.ready for one in bystanders.all), 60, "the bystanders are there")


def started(state_dir: Path, root: Path) -> World:
    """Start a simulated container without noise or load time, whose files are in ``root``."""
    options = sim.SimOptions(devices=DEVICES, root=root, load_seconds=0, noise_run=0, noise_launch=0, drift=0)
    return World(state_dir, sim.start_detached(options, state_dir))


def put_between(world: World, cable: Cable) -> None:
    """Let the container be the endpoint ``sim``, reached through the cable."""
    known = Path(world.facts["known_hosts"])
    _address, _, key = known.read_text("utf-8").strip().partition(" ")
    with known.open("a", encoding="utf-8") as stream:
        stream.write(f"[127.0.0.1]:{cable.port} {key}\n")
    same = ("host", "user", "identity_file", "known_hosts", "python", "vllm_repo", "vllm_ascend_repo", "workdir")
    fields = {name: world.facts[name] for name in same}
    save_endpoint(world.state_dir, EndpointConfig(name="sim", port=cable.port, **fields))


class Driver(RuleBasedStateMachine):
    """One task on the container: what the rules of a state machine are made of, and what must always hold."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.steps: list[str] = []
        self.before: set[str] = set()
        self.looked = -1
        self.server: RawServer | None = None
        self.task: Task | None = None

    @property
    def context(self) -> str:
        assert self.task is not None
        return self.task.context_file

    def ids(self) -> list[str]:
        """All executions of the task, oldest first: the records are there before anything is started."""
        assert self.task is not None
        return [path.name for path in self.task.executions if (path / "record.json").exists()]

    def living(self) -> list[str]:
        lookout = self.place.lookout
        return [one for one in self.ids() if lookout.record(one).get("state", "queued") not in FINAL]

    def one_of(self, number: int) -> str | None:
        ids = self.living() or self.ids()
        return ids[number % len(ids)] if ids else None

    def note(self, step: str) -> None:
        self.steps.append(step)
        if TRACE:
            with Path(TRACE).open("a", encoding="utf-8") as stream:
                stream.write(step + "\n")

    def fail(self, what: str) -> None:
        if not self.place.found:
            self.place.found.append("\n  ".join([what, "after:", *self.steps]))
        raise AssertionError(self.place.found[0])

    def begin(self, tool: str, arguments: Json) -> int:
        assert self.server is not None
        self.note(f"{time.monotonic():.1f} {tool} {json.dumps(arguments)}")
        return self.server.start(tool, {"context_file": self.context, **arguments})

    def finish(self, call: int) -> Json:
        assert self.server is not None
        answer = json.loads(self.server.answer(call)["content"][0]["text"])
        error = answer.get("error") or {}
        self.note(f"  -> {answer['status']} {answer.get('execution_id')} {answer.get('state')} {error}")
        if error.get("code") == "internal_error":
            self.fail(json.dumps(answer))
        return answer

    def call(self, tool: str, **arguments: Any) -> Json:
        return self.finish(self.begin(tool, arguments))

    def new_server(self) -> None:
        if self.server is not None:
            self.server.end()
        self.server = RawServer(self.place.world.state_dir)

    def kill(self, pid: int, start_ticks: int, what: str) -> None:
        """SIGKILL a process if it still is the one that is meant."""
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[19]) == start_ticks:
                os.kill(pid, signal.SIGKILL)
                self.note(f"  killed {what} {pid}")

    def kill_part(self, number: int, part: str) -> None:
        chosen = self.one_of(number)
        entry = self.place.lookout.record(chosen).get(part) if chosen else None
        if entry:
            self.note(f"kill {part} of {chosen}")
            self.kill(entry["pid"], entry["start_ticks"], part)

    def kill_workers(self) -> None:
        for pid, line in self.place.world.processes().items():
            if "vaws_worker" in line and " supervise " not in line:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    self.note(f"  killed worker {pid}")

    @initialize()
    def open(self) -> None:
        if self.place.found:
            self.fail("")
        self.before = self.place.lookout.folders()
        self.task = self.place.world.new_task("state")
        self.new_server()

    @invariant()
    def nothing_is_wrong(self) -> None:
        if self.task is None or self.looked == len(self.steps):
            return
        self.looked = len(self.steps)
        there, known = self.place.lookout.folders(), self.ids()
        told = self.place.world.cli("vaws-execution", "--context-file", self.context)
        if told.code or told.answer["unreachable"]:
            self.fail(f"the executions cannot be found: {told.answer}")
        rows = {row["execution_id"]: row for row in told.answer["executions"]}
        # One whose submission was cut off is unknown as long as it may still be on its way.
        unknown = [one for one, row in rows.items() if row["state"] == "unknown" and one in there]
        missing = [one for one in known if one not in rows]
        if unknown or missing:
            self.fail(f"not found by a fresh process: {unknown} {missing}")
        self.judge(rows)

    def judge(self, rows: dict[str, Json]) -> None:
        """Judge what is, after some answers were given."""
        wrong = self.place.lookout.wrong(rows, self.ids) + self.place.bystanders.harms()
        if wrong:
            self.fail("; ".join(wrong))

    def teardown(self) -> None:
        self.place.bystanders.end(keep=3)
        if self.server is not None:
            self.server.end()
        if self.task is None or self.place.found:
            return
        finished = self.finished()
        ids = self.ids()
        told = self.place.world.cli("vaws-execution", "--context-file", self.context)
        wrong = [row for row in told.answer["executions"] if not row["resources_released"]]
        left = self.place.lookout.left()
        strange = self.place.lookout.folders() - set(ids) - self.before
        if finished.get("outcome") != "success" or wrong or left or strange:
            self.fail(f"task_finish answered {finished}; not released: {wrong}; left: {left}; strange: {strange}")
        self.judge({row["execution_id"]: row for row in told.answer["executions"]})
        self.place.world.assert_tree_untouched()
        self.devices_can_be_used_again()

    def devices_can_be_used_again(self) -> None:
        """What has ended stands in nobody's way."""
        task = self.place.world.new_task("after")
        words = ("--npu-count", str(FOREIGN), "--wait-until", "released", "--wait-s", "60", "--", "true")
        ran = self.place.world.cli("vaws-run", "--context-file", task.context_file, *words).answer
        if not ran.get("resources_released"):
            self.fail(f"the devices cannot be used again: {ran}")

    def finished(self) -> Json:
        """Finish the task; what cannot be stopped in time is tried again, as the hints say."""
        answer: Json = {}
        for _attempt in range(3):
            answer = self.place.world.cli("task-finish", "--stop", "--context-file", self.context).answer
            self.note(f"task_finish -> {answer['status']} {(answer.get('error') or {}).get('message')}")
            if answer["outcome"] == "success":
                break
        return answer

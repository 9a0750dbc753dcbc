"""Many processes at once on one state directory: nothing torn, nothing lost."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import flow_writer
import pytest
from flow_server import raw_server
from flow_world import Cli, Task, World, surroundings, until

STAYING, KILLED, ROUNDS = 14, 6, 3

Acknowledged = dict[str, list[str]]


@contextmanager
def writers(state_dir: Path, shared: Path, folder: Path) -> Generator[list["subprocess.Popen[bytes]"]]:
    """Start all writers; the first ones end by themselves. Each writes its acknowledgements to a file."""
    with ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []
        for number in range(STAYING + KILLED):
            rounds = ROUNDS if number < STAYING else 0
            words = [str(state_dir), str(shared), str(number), str(rounds)]
            log = stack.enter_context((folder / f"{number}.log").open("wb"))
            errors = stack.enter_context((folder / f"{number}.err").open("wb"))
            process = subprocess.Popen(
                [sys.executable, flow_writer.__file__, *words],
                env=surroundings(state_dir),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=errors,
            )
            stack.callback(process.wait, 30)
            stack.callback(process.kill)
            started.append(process)
        yield started


def acknowledged(folder: Path) -> Acknowledged:
    """What the writers have acknowledged, by kind; a last line cut by a kill is left out."""
    found: Acknowledged = {}
    for log in folder.glob("*.log"):
        for line in log.read_text("utf-8").split("\n")[:-1]:
            kind, _, what = line.partition(" ")
            found.setdefault(kind, []).append(what)
    return found


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, Path, Acknowledged]:
    """A state directory that 20 processes have written to, 6 of which were killed in the middle."""
    state_dir, folder = tmp_path / ".vaws-local", tmp_path / "logs"
    folder.mkdir()
    shared = state_dir / "tasks" / Cli(state_dir)("task-create", "shared").answer["task_id"]
    with writers(state_dir, shared, folder) as started:
        for number, process in enumerate(started[STAYING:], STAYING):
            log = folder / f"{number}.log"
            until(lambda log=log: log.stat().st_size > 0, 40, f"writer {number} writes")
            process.kill()
        codes = [process.wait(60) for process in started[:STAYING]]
    assert codes == [0] * STAYING, "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("*.err")))
    return state_dir, shared, acknowledged(folder)


def test_twenty_processes_lose_and_tear_nothing(written: tuple[Path, Path, Acknowledged]) -> None:
    state_dir, shared, said = written
    for kind in ("task", "service", "endpoint", "event", "audit"):
        assert len(said[kind]) >= STAYING * ROUNDS

    services = json.loads((shared / "services.json").read_text("utf-8"))["services"]
    assert dict(item.split("=") for item in said["service"]).items() <= services.items()
    endpoints = tomllib.loads((state_dir / "endpoints.toml").read_text("utf-8"))
    assert set(said["endpoint"]) <= endpoints.keys()
    events = [json.loads(line) for line in (shared / "events.jsonl").read_text("utf-8").splitlines()]
    assert set(said["event"]) <= {event["writer"] for event in events}
    assert all(event["padding"] == event["writer"] * 100 for event in events)
    audits = [json.loads(line) for line in (state_dir / "audit.jsonl").read_text("utf-8").splitlines()]
    assert set(said["audit"]) <= {line["request"].get("writer") for line in audits}

    listed = Cli(state_dir)("task-list")
    assert listed.code == 0
    assert set(said["task"]) <= {task["task_id"] for task in listed.answer["tasks"]}
    assert len(listed.answer["unreadable"]) <= KILLED
    assert Cli(state_dir)("task-create", "after", "--endpoint", "host-0-0").code == 0


def test_two_servers_share_a_state_directory(tmp_path: Path) -> None:
    state_dir = tmp_path / ".vaws-local"
    with raw_server(state_dir) as first, raw_server(state_dir) as second:
        numbers = [
            (server, server.start("task_create", {"slug": f"task-{number}"}))
            for number in range(15)
            for server in (first, second)
        ]
        answers = [json.loads(server.answer(number)["content"][0]["text"]) for server, number in numbers]
        listed = first.call("task_list", {})
    made = {answer["task_id"] for answer in answers}
    assert len(made) == 30
    assert {task["task_id"] for task in listed["tasks"]} == made
    audits = (state_dir / "audit.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["operation"] for line in audits] == ["task_create"] * 30


def test_two_servers_wait_for_the_same_run(world: World, task: Task) -> None:
    with raw_server(world.state_dir) as first, raw_server(world.state_dir) as second:
        started = first.call("bench_compare", world.arguments(task, "a=main", "b=slow-decode", wait_s=0))
        assert started["status"] == "running"
        calls = [(server, server.start("run_wait", {"run_id": started["run_id"]})) for server in (first, second)]
        one, two = (json.loads(server.answer(number)["content"][0]["text"]) for server, number in calls)
    assert one["status"] == two["status"] == "ok"
    assert one["result"] == two["result"]

"""What managed executions cost: starting, stopping, looking at a hundred of them, and against plain `ssh`.

Everything runs on the simulated container, over one warm connection; `ssh` has a warm master. Both sides take turns.
A figure without another side stands against its bar. Times are medians in milliseconds.

    uv run python perf/coordinator.py [--samples 15] [--executions 100] [--only start,stop] [--strict] [--json FILE]
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from figures import HEADER, Row, Side, alternate, median, timed

from vaws_mcp.coordinator.control import vaws_execution
from vaws_mcp.coordinator.operations import task_finish
from vaws_mcp.coordinator.run import vaws_run
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.operation import Operation
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.connect import connected
from vaws_mcp.endpoint.registry import load_endpoints, save_endpoint
from vaws_mcp.source.operations import code_sync
from vaws_mcp.taskstore.operations import task_create

START_BAR_MS = 300.0
STOP_BAR_MS = 1500.0
STATUS_BAR_MS = 100.0
OVERHEAD_BAR_MS = 300.0
PARITY_BAR_MS = 300.0
PARITY_FILES = 3000
SIM = ("--noise-run", "0", "--noise-launch", "0", "--drift", "0", "--load-seconds", "0")
Answer = dict[str, Any]


class MeasureError(Exception):
    """A call or a program did not do what was measured."""


@dataclass
class World:
    """The simulated container, a task in it, and an `ssh` client with a warm master."""

    state_dir: Path
    facts: Answer
    resources: Resources
    samples: int
    executions: int
    context_file: str = ""

    async def call(self, operation: Operation, **arguments: Any) -> Answer:
        """Return the answer of a call that succeeded.

        Raises: MeasureError.
        """
        ctx = Context(state_dir=self.state_dir, resources=self.resources, wait_s=60.0)
        if self.context_file:
            arguments["context_file"] = self.context_file
        answer = await invoke(operation, arguments, ctx)
        if answer["outcome"] != "success":
            raise MeasureError(f"{operation.name}: {answer.get('error') or answer['summary']}")
        return answer

    async def probe(self) -> None:
        """Look at the devices once, as a supervisor does before it grants them."""
        ctx = Context(state_dir=self.state_dir, resources=self.resources)
        endpoint = await connected(ctx, load_endpoints(self.state_dir)["sim"])
        await endpoint.call("npu.probe", {"env_spec": endpoint.env_spec()})

    def ssh(self, *words: str) -> list[str]:
        """Return a call of `ssh` over the warm master."""
        options = {
            "UserKnownHostsFile": self.facts["known_hosts"],
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ControlPath": str(self.state_dir / "master"),
        }
        settings = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        place = f"{self.facts['user']}@{self.facts['host']}"
        key, port = self.facts["identity_file"], str(self.facts["port"])
        return ["ssh", "-F", "none", "-i", key, *settings, "-p", port, place, *words]

    async def by_ssh(self, *command: str) -> None:
        """Run a command by plain `ssh`.

        Raises: CalledProcessError.
        """
        argv = self.ssh(*command)
        subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)  # noqa: ASYNC221

    @contextlib.contextmanager
    def master(self) -> Generator[None]:
        """Keep the `ssh` connection warm meanwhile."""
        argv = self.ssh()
        subprocess.run([*argv[:-1], "-M", "-N", "-f", "-o", "ControlPersist=yes", argv[-1]], check=True)
        try:
            yield
        finally:
            subprocess.run([*argv[:-1], "-O", "exit", argv[-1]], check=False, capture_output=True)


async def start_and_stop(world: World) -> list[Row]:
    """Submit to running on a free device, and stop to everything released, for a process that obeys."""
    running: list[str] = []
    stops: list[float] = []

    async def start() -> None:
        answer = await world.call(vaws_run, endpoint="sim", command=["sleep", "300"], npu_count=1, wait_until="running")
        running.append(answer["execution_id"])

    async def stop() -> None:
        answer = await world.call(vaws_execution, action="stop", execution_id=running.pop())
        if not answer["resources_released"]:
            raise MeasureError(answer["summary"])

    starts: list[float] = []
    probes: list[float] = []
    await world.probe()
    for _ in range(world.samples):
        probes.append(await timed(world.probe))
        starts.append(await timed(start))
        stops.append(await timed(stop))
    return [
        Row("submit to running, one free device", median(starts), median(probes), 1.0, "a probe", extra=START_BAR_MS),
        Row("stop to resources released, with its device", median(stops), STOP_BAR_MS, 1.0, "the bar"),
    ]


async def without_devices(world: World) -> list[Row]:
    """A managed run of `true` to its end against the same by `ssh`, and its stop."""
    sides: dict[str, Side] = {
        "ours": lambda: world.call(vaws_run, endpoint="sim", command=["true"], wait_until="released"),
        "ssh": lambda: world.by_ssh("true"),
    }
    with world.master():
        taken = await alternate(sides, world.samples, 1)
    ours, theirs = median(taken["ours"]), median(taken["ssh"])
    return [Row("managed run of `true` to its end", ours, theirs, 1.0, "ssh, warm master", extra=OVERHEAD_BAR_MS)]


async def status(world: World) -> list[Row]:
    """The list of many executions that are all alive, and one of them by its id."""
    found: list[str] = []

    async def start() -> None:
        answer = await world.call(vaws_run, endpoint="sim", command=["sleep", "600"])
        found.append(answer["execution_id"])

    for begin in range(0, world.executions, 10):
        async with anyio.create_task_group() as group:
            for _ in range(min(10, world.executions - begin)):
                group.start_soon(start)

    async def listed() -> None:
        answer = await world.call(vaws_execution)
        states = [row["state"] for row in answer["executions"]]
        if states.count("running") < world.executions:
            raise MeasureError(f"only {states.count('running')} of {world.executions} are running")

    sides: dict[str, Side] = {
        "all": listed,
        "one": lambda: world.call(vaws_execution, execution_id=found[0]),
    }
    taken = await alternate(sides, world.samples, 3)
    return [
        Row(f"status of {world.executions} live executions", median(taken["all"]), STATUS_BAR_MS, 1.0, "the bar"),
        Row("status of one of them", median(taken["one"]), STATUS_BAR_MS, 1.0, "the bar"),
    ]


def local_git(*words: str) -> None:
    """Run git here.

    Raises: CalledProcessError.
    """
    person = ("-c", "user.name=perf", "-c", "user.email=perf@localhost")
    subprocess.run(["git", *person, *words], check=True, capture_output=True, timeout=120)


def make_trees(folder: Path) -> tuple[Path, Path]:
    """Make a tree about as large as vllm-ascend, and a clone of it for the endpoint."""
    local, remote = folder / "local", folder / "remote"
    for number in range(PARITY_FILES):
        path = local / f"dir{number % 40}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"value = {number}\n" * 50)
    local_git("init", "-q", "-b", "main", str(local))
    local_git("-C", str(local), "add", "-A")
    local_git("-C", str(local), "commit", "-q", "-m", "first")
    local_git("clone", "-q", str(local), str(remote))
    return local, remote


async def parity(world: World) -> list[Row]:
    """`code_sync` when nothing changed since the last one, five files being uncommitted, against asking for HEAD."""
    local, remote = make_trees(world.state_dir / "trees")
    config = load_endpoints(world.state_dir)["sim"]
    save_endpoint(world.state_dir, config.model_copy(update={"name": "synced", "vllm_ascend_repo": str(remote)}))
    for number in range(5):
        (local / f"dir{number}" / "changed.py").write_text("changed = True\n")
    before, world.context_file = world.context_file, ""
    task = await world.call(task_create, slug="parity", endpoint="synced", vllm_ascend=str(local))
    world.context_file = task["context_file"]

    async def unchanged() -> None:
        answer = await world.call(code_sync)
        if answer["status"] != "unchanged":
            raise MeasureError(answer["summary"])

    try:
        await world.call(code_sync)
        sides: dict[str, Side] = {
            "ours": unchanged,
            "ssh": lambda: world.by_ssh("git", "-C", str(remote), "rev-parse", "HEAD"),
        }
        with world.master():
            taken = await alternate(sides, world.samples, 3)
        await world.call(task_finish)
    finally:
        world.context_file = before
    ours, theirs = median(taken["ours"]), median(taken["ssh"])
    what = f"parity of {PARITY_FILES} files, nothing changed"
    return [Row(what, ours, theirs, 0.0, "ssh git rev-parse", extra=PARITY_BAR_MS)]


MEASURES: dict[str, Callable[[World], Awaitable[list[Row]]]] = {
    "start": start_and_stop,
    "run": without_devices,
    "status": status,
    "parity": parity,
}


def main() -> int:
    """Measure and print; with ``--strict`` exit 1 when a bar is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=15, help="Samples of each figure (default: 15).")
    parser.add_argument("--executions", type=int, default=100, help="Executions to look at (default: 100).")
    parser.add_argument("--only", metavar="NAMES", help=f"Comma-separated, of: {', '.join(MEASURES)}.")
    parser.add_argument("--strict", action="store_true", help="Exit 1 when a bar is not met.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="Also write the rows to a file.")
    options = parser.parse_args()
    names: list[str] = options.only.split(",") if options.only else list(MEASURES)
    if unknown := [name for name in names if name not in MEASURES]:
        parser.error(f"unknown: {', '.join(unknown)}")
    os.environ.pop("VAWS_CONTEXT_FILE", None)
    with simulated() as (state_dir, facts):
        rows = anyio.run(measure, options, names, state_dir, facts)
    if options.json:
        options.json.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n", "utf-8")
    missed = sum(not row.met for row in rows)
    print(f"{len(rows) - missed} of {len(rows)} bars met")
    return 1 if missed and options.strict else 0


async def measure(options: argparse.Namespace, names: list[str], state_dir: Path, facts: Answer) -> list[Row]:
    """Take the measures in one task, print each row when it is known, and end everything that was started."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} CPUs, load {load}, Python {sys.version.split()[0]}")
    print(HEADER, flush=True)
    rows: list[Row] = []
    async with Resources() as resources:
        world = World(state_dir, facts, resources, options.samples, options.executions)
        world.context_file = (await world.call(task_create, slug="perf", endpoint="sim"))["context_file"]
        try:
            for name in names:
                for row in await MEASURES[name](world):
                    print(row.as_line(), flush=True)
                    rows.append(row)
        finally:
            with anyio.CancelScope(shield=True):
                await world.call(task_finish)
    return rows


@contextlib.contextmanager
def simulated() -> Generator[tuple[Path, Answer]]:
    """Start a simulated container in a state directory of its own, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="vaws-perf-") as folder:
        state_dir = Path(folder) / ".vaws-local"
        env = {**os.environ, "VAWS_STATE_DIR": str(state_dir)}
        command = [sys.executable, "-m", "vaws_mcp"]
        started = subprocess.run(
            [*command, "sim-start", "--detach", *SIM], env=env, stdout=subprocess.PIPE, timeout=60, check=True
        )
        try:
            yield state_dir, json.loads(started.stdout)
        finally:
            subprocess.run([*command, "sim-stop"], env=env, stdout=subprocess.DEVNULL, timeout=60, check=True)


if __name__ == "__main__":
    sys.exit(main())

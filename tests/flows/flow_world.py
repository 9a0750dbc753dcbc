"""What the stories share: the command line, the simulated container, and what ``/proc`` says."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
Json = dict[str, Any]

SIM_OPTIONS = ("--noise-run", "0", "--noise-launch", "0", "--drift", "0", "--load-seconds", "0.2", "--tpot-ms", "10")
SMALL_BENCH = (
    *("--dataset-name", "random", "--random-input-len", "32", "--random-output-len", "8"),
    *("--num-prompts", "4", "--max-concurrency", "2", "--ignore-eos"),
)
PROGRESS_PREFIX = "__VAWS_PROGRESS__="
COMMAND: tuple[str, ...] = (sys.executable, "-m", "vaws_mcp")
CALL_BOUND_S = 90.0


def until(look: Callable[[], T], seconds: float, what: str, pause: float = 0.02) -> T:
    """Return the first true value of ``look``; fail the test when there is none in time."""
    end = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > end:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(pause)
    return found


def processes_with(*needles: bytes) -> dict[int, str]:
    """Command lines, by pid, of other live processes with one of these in their environment or arguments."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes()
            text = (entry / "environ").read_bytes() + b"\0" + line
            if any(needle in text for needle in needles):
                found[int(entry.name)] = line.replace(b"\0", b" ").decode("utf-8", "replace").strip()
    return found


def surroundings(state_dir: Path, **more: str) -> dict[str, str]:
    """The environment of our commands: this one's, with the state directory and without a task."""
    kept = {name: value for name, value in os.environ.items() if name != "VAWS_CONTEXT_FILE"}
    return {**kept, "VAWS_STATE_DIR": str(state_dir), **more}


@dataclass(frozen=True)
class Spoken:
    """How a command ended: exit code, the one object on stdout, and stderr."""

    code: int
    answer: Json
    stderr: str

    @property
    def progress(self) -> list[Json]:
        lines = self.stderr.splitlines()
        return [json.loads(line.removeprefix(PROGRESS_PREFIX)) for line in lines if line.startswith(PROGRESS_PREFIX)]


@dataclass(frozen=True)
class Cli:
    """`remote-dev` as a script calls it."""

    state_dir: Path

    def __call__(self, *words: str, **env: str) -> Spoken:
        done = subprocess.run(
            [*COMMAND, *words],
            env=surroundings(self.state_dir, **env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CALL_BOUND_S,
            check=False,
        )
        lines = done.stdout.splitlines()
        assert len(lines) == 1, f"expected one object on stdout, got {done.stdout!r}; stderr: {done.stderr}"
        return Spoken(done.returncode, json.loads(lines[0]), done.stderr)


@dataclass(frozen=True)
class Task:
    """A task of one test."""

    task_id: str
    context_file: str

    @property
    def directory(self) -> Path:
        return Path(self.context_file).parent

    @property
    def runs(self) -> list[Path]:
        return sorted((self.directory / "benchmark" / "runs").glob("run-*"))

    @property
    def executions(self) -> list[Path]:
        return sorted((self.directory / "executions").glob("execution-*"))

    def events(self) -> list[Json]:
        """Progress of all runs, complete lines only."""
        found: list[Json] = []
        for run in self.runs:
            with contextlib.suppress(FileNotFoundError):
                lines = (run / "events.jsonl").read_text("utf-8").split("\n")[:-1]
                found += map(json.loads, lines)
        return found

    def wait_for(self, phase: str, state: str) -> str:
        """Wait until a run has reached a phase of a state, and return the run's id."""

        def reached() -> bool:
            return any(event["phase"] == phase and event.get("state") == state for event in self.events())

        until(reached, 30, f"phase {phase} of state {state}")
        return self.runs[-1].name


@dataclass(frozen=True)
class World:
    """A state directory with a simulated container."""

    state_dir: Path
    facts: Json

    @property
    def cli(self) -> Cli:
        return Cli(self.state_dir)

    @property
    def repo(self) -> Path:
        return Path(self.facts["vllm_ascend_repo"])

    def git(self, *words: str, stdin: str = "") -> str:
        answer = subprocess.run(
            ["git", "-C", str(self.repo), *words], input=stdin, capture_output=True, text=True, timeout=30, check=True
        )
        return answer.stdout.strip()

    def new_task(self, slug: str) -> Task:
        spoken = self.cli("task-create", slug, "--endpoint", "sim")
        assert spoken.code == 0, spoken.stderr
        return Task(spoken.answer["task_id"], spoken.answer["context_file"])

    def arguments(self, task: Task, *states: str, **more: Any) -> Json:
        """Arguments of a small `bench_compare`."""
        small: Json = {"bench_args": list(SMALL_BENCH), "runs": 1, "warmup_runs": 0}
        fixed = {"context_file": task.context_file, "model": self.facts["model"], "state": list(states)}
        return {**small, **fixed, **more}

    def compare_words(self, task: Task, *states: str, **more: str) -> list[str]:
        """A small `bench-compare`; ``more`` are further options, one value each."""
        words = ["bench-compare", "--context-file", task.context_file]
        for state in states:
            words += ["--state", state]
        options = {"model": self.facts["model"], "bench_args": " ".join(SMALL_BENCH), "runs": "1", "warmup_runs": "0"}
        for name, value in {**options, **more}.items():
            words += [f"--{name.replace('_', '-')}", value]
        return words

    def compare(self, task: Task, *states: str, **more: str) -> Spoken:
        """Run a small `bench-compare` to its end."""
        return self.cli(*self.compare_words(task, *states, **more))

    @contextlib.contextmanager
    def compare_later(self, task: Task, *states: str) -> Generator["subprocess.Popen[str]"]:
        """Start a small `bench-compare` and go on."""
        with subprocess.Popen(
            [*COMMAND, *self.compare_words(task, *states)],
            env=surroundings(self.state_dir),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as command:
            try:
                yield command
            finally:
                if command.poll() is None:
                    command.kill()

    def processes(self) -> dict[int, str]:
        """Everything that runs in the container."""
        return processes_with(f"VAWS_SIM_MARKER={self.facts['marker']}".encode())

    def vllm(self) -> dict[int, str]:
        """Servers, engines, workers and clients of vLLM in the container."""
        marks = ("VLLM::", "/vllm serve", "/vllm bench", "vllm-workspace")
        return {pid: line for pid, line in self.processes().items() if any(mark in line for mark in marks)}

    def assert_tree_untouched(self) -> None:
        assert self.git("symbolic-ref", "--short", "HEAD") == "main"
        assert self.git("rev-parse", "HEAD") == self.git("rev-parse", "refs/remotes/origin/main")
        assert self.git("status", "--porcelain") == ""

    def assert_clean(self) -> None:
        """Nothing runs in the container, and the tree is back where it was."""
        until(lambda: not self.processes(), 5, f"no process is left: {self.processes()}")
        self.assert_tree_untouched()


def signal_run(run: Path, number: int) -> None:
    """Signal the process of a run, after checking that the pid in its record still is that process."""
    pid = int(json.loads((run / "run.json").read_text("utf-8"))["pid"])
    assert run.name in Path(f"/proc/{pid}/cmdline").read_text("utf-8")
    os.kill(pid, number)


def commit_stream(branch: str, speed: Json) -> str:
    """A commit on top of main, for `git fast-import`, that changes how the simulated vLLM behaves."""
    content = json.dumps(speed)
    head = f"commit refs/heads/{branch}\ncommitter Sim <sim@example.invalid> 1767999999 +0000\n"
    message = f"Behave as {branch}"
    file = f"M 100644 inline vllm_ascend/simulation.json\ndata {len(content)}\n{content}\n"
    return f"{head}data {len(message)}\n{message}\nfrom refs/heads/main^0\n{file}\n"

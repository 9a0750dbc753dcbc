"""What becomes of a job when its caller, its connection or its keeper dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest
from callers import BOUND_S, Answer, Caller, caller, kill, start_elsewhere
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.connect.places import Server, lives, until

pytestmark = pytest.mark.asyncio(loop_scope="function")
COUNTING = "i=0; while [ $i -lt 60 ]; do echo line-$i; i=$((i+1)); sleep 0.02; done; exit 6"
COUNTED = "".join(f"line-{n}\n" for n in range(60))


async def continues(state_dir: Path, answer: Answer) -> None:
    """Read the rest of ``COUNTING`` from the answer's cursor over a new connection."""
    async with caller(state_dir, "box") as mine:
        text, _ = await mine.read_on(answer["job_id"], answer["stdout_cursor"])
        assert answer["stdout"] + text == COUNTED
        assert (await mine.ended(answer["job_id"]))["exit_code"] == 6


async def test_a_job_survives_the_kill_of_its_caller(state_dir: Path) -> None:
    process, answer = start_elsewhere(state_dir, "box", command=COUNTING, yield_time_ms=300)
    assert answer["status"] == "running"
    kill(process)
    await continues(state_dir, answer)


async def test_a_job_survives_the_kill_of_its_connection(server: Server, state_dir: Path) -> None:
    async with caller(state_dir, "box") as mine:
        answer = await mine.bash(COUNTING, yield_time_ms=300)
        server.kill_connections()
        text, _ = await mine.read_on(answer["job_id"], answer["stdout_cursor"])
        assert answer["stdout"] + text == COUNTED
        assert (await mine.ended(answer["job_id"]))["exit_code"] == 6


async def test_a_job_whose_keeper_was_killed_is_named_and_drained(state_dir: Path) -> None:
    async with caller(state_dir, "box") as mine:
        job_id = await mine.start("trap '' PIPE; sleep 300 & echo $!; wait")
        text, _ = await mine.read_on(job_id, until="\n")
        pid = int(text)
        os.kill(await worker_pid(mine), signal.SIGKILL)
        found = await mine.call("job_status", job_id=job_id)
        if found.get("error"):  # the loss of the connection may be noticed by this very call
            found = await mine.call("job_status", job_id=job_id)
        assert found["state"] == "lost_keeper"
        assert pid in [process["pid"] for process in found["processes"]]
        assert "job_stop" in found["hint"]
        stopped = await mine.call("job_stop", job_id=job_id)
        assert (stopped["state"], stopped["exit_code"], stopped["survivors"]) == ("lost", None, [])
        assert not lives(pid)
        assert (await mine.read_on(job_id))[0] == text


async def worker_pid(mine: Caller) -> int:
    return int((await mine.bash("echo $PPID"))["stdout"])


async def cut_while_it_runs(server: Server, state_dir: Path, note: Path, *, detach: bool) -> tuple[Answer, int]:
    """Lose the connection while a command runs that would not yield for long; returns its answer and its pid."""
    answers: list[Answer] = []
    async with caller(state_dir, "box") as mine:

        async def run() -> None:
            command = f"echo $$ > {note}.new; mv {note}.new {note}; sleep 300"
            answers.append(await mine.bash(command, yield_time_ms=60_000, detach=detach))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await until(note.exists, "the command has started")
            server.kill_connections()
    return answers[0], pid_in(note)


def pid_in(note: Path) -> int:
    return int(note.read_text())


async def test_a_command_whose_connection_is_lost_before_it_yields_is_ended(
    server: Server, state_dir: Path, tmp_path: Path
) -> None:
    answer, pid = await cut_while_it_runs(server, state_dir, tmp_path / "pid", detach=False)
    assert answer["error"]["code"] == "outcome_unknown"
    await until(lambda: not lives(pid), "it is gone")
    async with caller(state_dir, "box") as mine:
        found = await mine.call("job_status", job_id=answer["job_id"])
        assert found["error"]["code"] == "job_unknown"


async def test_a_command_that_may_detach_becomes_the_job_that_the_error_names(
    server: Server, state_dir: Path, tmp_path: Path
) -> None:
    answer, pid = await cut_while_it_runs(server, state_dir, tmp_path / "pid", detach=True)
    assert answer["error"]["code"] == "outcome_unknown"
    assert answer["job_id"] in answer["error"]["hint"]
    async with caller(state_dir, "box") as mine:
        found: Answer = {}
        with anyio.fail_after(BOUND_S):
            while found.get("state") != "running":
                found = await mine.call("job_status", job_id=answer["job_id"])
        assert lives(pid)
        assert (await mine.call("job_stop", job_id=answer["job_id"]))["state"] == "exited"
    assert not lives(pid)


async def test_a_hundred_commands_at_once_all_succeed(state_dir: Path) -> None:
    answers: list[Answer] = []
    async with caller(state_dir, "box") as mine:

        async def one(number: int) -> None:
            answers.append(await mine.bash(f"sleep 0.05; echo {number}"))

        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(one, number)
    assert sorted(int(answer["stdout"]) for answer in answers) == list(range(100))


texts = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30), max_size=8)


@given(pieces=texts, sizes=st.lists(st.integers(4, 60), min_size=1, max_size=5))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_pages_of_any_size_give_exactly_the_text(state_dir: Path, pieces: list[str], sizes: list[int]) -> None:
    script = "".join(f"printf '%b' '{_octal(piece)}'; sleep 0.01; " for piece in pieces) + "true"
    async with caller(state_dir, "box") as mine:
        job_id = await mine.start(script)
        text, offset, eof, turn = "", 0, False, 0
        while not eof and turn < 2000:
            size = sizes[turn % len(sizes)]
            page = await mine.call("job_tail", job_id=job_id, offset=offset, max_bytes=size, wait_ms=500)
            text, offset, eof, turn = text + page["content"], page["next_offset"], page["eof"], turn + 1
    assert eof
    assert text == "".join(pieces)


def _octal(text: str) -> str:
    return "".join(f"\\0{byte:03o}" for byte in text.encode())

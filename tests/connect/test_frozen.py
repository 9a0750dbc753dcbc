"""A peer that is frozen, killed or started anew: noticed in time, told truthfully, and left for a new connection."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from places import Answer, Box, Server, lives, open_box, open_server, until

from tests.live import processes, sshd
from vaws_mcp.endpoint import channel as channel_module
from vaws_mcp.endpoint import ssh as ssh_module

pytestmark = pytest.mark.asyncio(loop_scope="function")
KEEPALIVE_BOUND_S = ssh_module.KEEPALIVE_S * ssh_module.KEEPALIVE_MISSES


@pytest.fixture
def server(tmp_path: Path, home: Path) -> Iterator[Server]:
    with open_server(tmp_path / "server", home) as opened:
        yield opened


@pytest.fixture
def state_dir(server: Server, tmp_path: Path) -> Path:
    server.register(tmp_path / "state")
    return tmp_path / "state"


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "note"


def sleeping(note: Path) -> str:
    """A command that notes its pid and its worker's, and then sleeps."""
    return f"echo $$ $PPID > {note}.new; mv {note}.new {note}; exec sleep 300"


def pids(note: Path) -> list[int]:
    return [int(word) for word in note.read_text().split()]


async def gone(*found: int) -> None:
    await until(lambda: not any(map(lives, found)), f"{found} are gone", 20)


def check_lost(answer: Answer, *, retry_safe: bool) -> None:
    error = answer["error"]
    assert (error["code"], error["layer"], error["retry_safe"]) == ("outcome_unknown", "transport", retry_safe), answer
    assert "outcome unknown" in error["message"]


async def both(box: Box, note: Path, answers: dict[str, Answer], freeze: list[int] | None = None) -> None:
    """Let a command run and then read a file, with these processes (else the worker) frozen in between."""

    async def bash() -> None:
        answers["bash"] = await box.bash(sleeping(note), yield_time_ms=3_600_000)

    async def read() -> None:
        answers["read"] = await box.call("remote_read", file_path="/etc/hostname")

    async with anyio.create_task_group() as group:
        group.start_soon(bash)
        await until(note.exists, "the command runs")
        for pid in pids(note)[1:] if freeze is None else freeze:
            os.kill(pid, signal.SIGSTOP)
        group.start_soon(read)


@contextmanager
def restarted(facts: sshd.Sshd) -> Generator[None]:
    """Start a server anew on the port of one that has ended."""
    program = sshd.sshd_path()
    assert program
    process = sshd.start(program, facts.log.parent / "sshd_config", facts.log)
    try:
        assert sshd.wait_ready(process, facts.port)
        yield
    finally:
        sshd.stop(process)


async def works_again(box: Box) -> None:
    again = await box.bash("echo back")
    assert (again["outcome"], again["stdout"]) == ("success", "back\n")
    assert (await box.call("remote_read", file_path="/etc/hostname"))["outcome"] == "success"


async def test_a_frozen_peer_is_noticed_within_the_keepalive_bound(server: Server, state_dir: Path, note: Path) -> None:
    answers: dict[str, Answer] = {}
    async with open_box(state_dir, "box") as box:
        assert (await box.bash("true"))["exit_code"] == 0
        frozen = [process.pid for process in processes.children(server.facts.pid)]
        begin = time.monotonic()
        try:
            await both(box, note, answers, freeze=frozen)
            assert time.monotonic() - begin < KEEPALIVE_BOUND_S + 2
            check_lost(answers["bash"], retry_safe=False)
            check_lost(answers["read"], retry_safe=True)
            await works_again(box)
        finally:
            for pid in frozen:
                os.kill(pid, signal.SIGCONT)
        await gone(*pids(note), *frozen)
        await works_again(box)


async def test_a_frozen_worker_is_left_and_the_next_call_gets_a_new_one(
    state_dir: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "LOOK_EVERY_S", 0.2)
    monkeypatch.setattr(channel_module, "SILENCE_BOUND_S", 0.5)
    answers: dict[str, Answer] = {}
    async with open_box(state_dir, "box") as box:
        worker = int((await box.bash("echo $PPID"))["stdout"])
        try:
            with anyio.fail_after(10):
                await both(box, note, answers)
            check_lost(answers["bash"], retry_safe=False)
            check_lost(answers["read"], retry_safe=True)
            assert "has said nothing" in answers["read"]["error"]["message"]
            await works_again(box)
            assert int((await box.bash("echo $PPID"))["stdout"]) != worker
            assert lives(worker)
        finally:
            os.kill(worker, signal.SIGCONT)
        await gone(*pids(note))
        await works_again(box)


async def test_a_frozen_worker_holds_no_caller_beyond_the_bound_of_looking() -> None:
    """Looking is what bounds a call of an hour: a deadline alone would let it wait that long."""
    assert channel_module.LOOK_EVERY_S + channel_module.SILENCE_BOUND_S <= KEEPALIVE_BOUND_S


async def test_a_cancelled_call_of_a_frozen_worker_leaves_it(
    state_dir: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "CANCEL_GRACE_S", 0.3)
    async with open_box(state_dir, "box") as box:
        worker = int((await box.bash("echo $PPID"))["stdout"])
        os.kill(worker, signal.SIGSTOP)
        try:
            with anyio.move_on_after(0.2) as given_up:
                await box.bash("true")
            assert given_up.cancelled_caught
            await works_again(box)
        finally:
            os.kill(worker, signal.SIGCONT)
        await gone(worker)


async def test_a_worker_that_is_only_busy_is_kept(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(channel_module, "SILENCE_BOUND_S", 0.3)
    async with open_box(state_dir, "box") as box:
        worker = int((await box.bash("echo $PPID"))["stdout"])
        assert (await box.bash("sleep 1.5; echo done"))["stdout"] == "done\n"
        assert int((await box.bash("echo $PPID"))["stdout"]) == worker


async def test_a_killed_worker_is_replaced(state_dir: Path, note: Path) -> None:
    async with open_box(state_dir, "box") as box:
        answers: list[Answer] = []

        async def bash() -> None:
            answers.append(await box.bash(sleeping(note), yield_time_ms=3_600_000))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(bash)
                await until(note.exists, "the command runs")
                os.kill(pids(note)[1], signal.SIGKILL)
            check_lost(answers[0], retry_safe=False)
            await works_again(box)
        await gone(*pids(note))  # the next worker has ended what the killed one had left


async def test_a_server_started_anew_on_its_port_is_reached_again(server: Server, state_dir: Path, note: Path) -> None:
    answers: list[Answer] = []
    facts = server.facts

    async def bash(box: Box) -> None:
        answers.append(await box.bash(sleeping(note), yield_time_ms=3_600_000))

    async with open_box(state_dir, "box") as box:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(bash, box)
                await until(note.exists, "the command runs")
                connections = processes.children(facts.pid)
                for process in [found for found in (processes.read_process(facts.pid), *connections) if found]:
                    processes.send(process, signal.SIGKILL)
            check_lost(answers[0], retry_safe=False)
            refused = await box.bash("true")
            assert refused["error"]["code"] == "port_closed"
            with restarted(facts):
                await works_again(box)
                await gone(*pids(note))

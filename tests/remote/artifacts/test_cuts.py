"""Connections and workers that die in the middle: the target is old or new, and the rest is sent later."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from moving import Caller, Mover, contents, leftovers, staged

from tests.connect.places import Server
from tests.live import processes
from vaws_mcp.worker.engine.artifacts import link
from vaws_mcp.worker.engine.artifacts.staging import Staging

SIZE = 64 << 20
CHOICE = random.Random(7)  # noqa: S311 - repeatable points, no secrets


def youngest(server: Server) -> processes.Process:
    """Return the youngest process below the server, which is the worker of the bulk channel."""
    pending, found = processes.children(server.facts.pid), list[processes.Process]()
    while pending:
        process = pending.pop()
        found.append(process)
        pending += processes.children(process.pid)
    return max(found, key=lambda process: process.start_ticks)


def damage(target: Path) -> None:
    """Change the beginning of what waits beside a target."""
    (part,) = Path(os.fsdecode(Staging(os.fsencode(target), inside=False).parts)).iterdir()
    with part.open("r+b") as file:
        file.write(b"damage")


async def cut_at(caller: Caller, paths: tuple[Path, Path, bool], point: int, kill: Any, *, inside: bool = False) -> Any:
    """Start a transfer, kill something when so much has arrived, and return the answer."""
    source, target, pushes = paths
    answers: list[dict[str, Any]] = []
    enough = max(point, staged(target, inside=inside) + 1)

    async def move() -> None:
        answers.append(await (caller.push if pushes else caller.pull)(source, target))

    async with anyio.create_task_group() as group:
        group.start_soon(move)
        with anyio.fail_after(30):
            while not answers and staged(target, inside=inside) < enough:  # noqa: ASYNC110 - a file sets no event
                await anyio.sleep(0.001)
        if not answers:
            kill()
    return answers[0]


@pytest.mark.asyncio
@pytest.mark.parametrize("pushes", [True, False])
@pytest.mark.parametrize("victim", ["connection", "worker"])
async def test_a_big_file_that_is_cut_goes_on_where_it_was(
    mover: Mover, server: Server, here: Path, there: Path, pushes: bool, victim: str
) -> None:
    source, target = (here / "big", there / "big") if pushes else (there / "big", here / "big")
    source.write_bytes(os.urandom(1 << 20) * (SIZE >> 20))
    target.write_bytes(b"old")

    def kill() -> None:
        if victim == "connection":
            server.kill_connections()
        else:
            processes.send(youngest(server), signal.SIGKILL)

    async with mover.open() as caller:
        cuts = 0
        for point in sorted(CHOICE.randrange(1 << 20, SIZE // 2) for _ in range(2)):
            answer = await cut_at(caller, (source, target, pushes), point, kill)
            if answer["outcome"] == "success":
                break
            cuts += 1
            assert (answer["error"]["code"], answer["error"]["layer"]) == ("transfer_cut", "transport"), answer
            assert answer["error"]["retry_safe"]
            assert target.read_bytes() == b"old"
        kept = staged(target)
        done = await (caller.push if pushes else caller.pull)(source, target)
    assert cuts
    assert done["outcome"] == "success", done
    if cuts == 2:
        assert done["spared_bytes"] >= kept > 0
        assert done["sent_bytes"] == SIZE - done["spared_bytes"]
    assert target.read_bytes() == source.read_bytes()
    assert not leftovers(target.parent)


@pytest.mark.asyncio
@pytest.mark.parametrize("existing", [True, False])
async def test_a_tree_that_is_cut_is_old_or_new_and_complete_files_are_not_sent_again(
    mover: Mover, server: Server, here: Path, there: Path, existing: bool
) -> None:
    tree, copy = here / "tree", there / "copy"
    tree.mkdir()
    for number in range(300):
        (tree / str(number)).write_bytes(os.urandom(100_000))
    if existing:
        copy.mkdir()
        for number in range(300):
            (copy / str(number)).write_bytes(b"old")
    async with mover.open() as caller:
        answer = await cut_at(caller, (tree, copy, True), 9_000_000, server.kill_connections, inside=existing)
        assert answer["error"]["code"] == "transfer_cut", answer
        kept = staged(copy, inside=existing)
        if existing:
            for number in range(300):
                assert (copy / str(number)).read_bytes() == b"old"
        else:
            assert not copy.exists()
        done = await caller.push(tree, copy)
    assert done["outcome"] == "success", done
    assert done["spared_bytes"] >= kept - 100_000
    assert done["sent_bytes"] <= 300 * 100_000 - kept + 100_000
    assert contents(copy) == contents(tree)
    assert not leftovers(there)


@pytest.mark.asyncio
async def test_bytes_that_were_damaged_between_two_tries_are_sent_again(
    mover: Mover, server: Server, here: Path, there: Path
) -> None:
    (here / "big").write_bytes(os.urandom(1 << 20) * (SIZE >> 20))
    async with mover.open() as caller:
        await cut_at(caller, (here / "big", there / "big", True), 5 << 20, server.kill_connections)
        damage(there / "big")
        done = await caller.push(here / "big", there / "big")
    assert (done["spared_bytes"], done["sent_bytes"]) == (0, SIZE)
    assert (there / "big").read_bytes() == (here / "big").read_bytes()


@pytest.mark.asyncio
async def test_a_frozen_worker_is_given_up_after_a_bounded_silence(
    mover: Mover, server: Server, here: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "SILENCE_S", 1.5)
    (there / "big").write_bytes(os.urandom(1 << 20) * (SIZE >> 20))
    frozen: list[processes.Process] = []

    def freeze() -> None:
        frozen.append(youngest(server))
        processes.send(frozen[0], signal.SIGSTOP)

    async with mover.open() as caller:
        try:
            answer = await cut_at(caller, (there / "big", here / "big", False), 1 << 20, freeze)
            assert answer["error"]["code"] == "transfer_cut", answer
            assert "nothing came" in answer["error"]["message"]
            assert not (here / "big").exists()
            done = await caller.pull(there / "big", here / "big")
        finally:
            processes.send(frozen[0], signal.SIGKILL)
    assert done["outcome"] == "success", done
    assert done["spared_bytes"] > 0

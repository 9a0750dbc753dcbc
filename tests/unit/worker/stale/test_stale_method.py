"""The worker's method on real processes: titles, sessions, marks and users as the kernel shows them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stale_decoys import CODE, Decoys, decoys, titled, until
from worker_client import Client, worker_argv

from vaws_mcp.worker.engine.stale import shared_memory
from vaws_mcp.worker.engine.stale.cleanup import _signal  # pyright: ignore[reportPrivateUsage]
from vaws_mcp.worker.facts import procfs

PYTHON38 = os.environ.get("VAWS_TEST_PYTHON38")
Start = Callable[..., Client]
QUICK = {"top_s": 2.0, "term_s": 1.0, "kill_s": 5.0}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Decoys]:
    with decoys(tmp_path) as made:
        yield made


@pytest.fixture
def worker(start: Start, world: Decoys) -> Client:
    return start(VAWS_SIM_MARKER=world.marker)


def cleanup(worker: Client, **params: Any) -> dict[str, Any]:
    return worker.call("stale.cleanup", {**QUICK, **params}).result


def pids(entries: list[dict[str, Any]]) -> list[int]:
    return sorted(entry["pid"] for entry in entries)


def spared(answer: dict[str, Any], pid: int) -> tuple[int, str]:
    entry = next(entry for entry in answer["spared"] if entry["pid"] == pid)
    return entry["test"], entry["reason"]


def alive(pid: int) -> bool:
    one = procfs.read_process(pid)
    return one is not None and one.alive


def submit(worker: Client, execution_id: str, *argv: str) -> None:
    spec = {"schema": 1, "execution_id": execution_id, "task_id": "t", "argv": list(argv), "devices": "none"}
    worker.call("execution.submit", {"spec": spec})


def test_a_dry_run_lists_and_touches_nothing(worker: Client, world: Decoys) -> None:
    engine = world.orphan(children=1)
    below = titled(world.marker, "VLLM::Worker")
    answer = cleanup(worker)
    assert answer["applied"] is False
    assert pids(answer["matched"]) == sorted([engine, *below])
    assert (answer["killed"], answer["surviving"]) == ([], [])
    assert alive(engine)
    assert alive(below[0])


def test_an_orphaned_engine_and_its_workers_are_ended_and_all_others_survive(worker: Client, world: Decoys) -> None:
    engine = world.orphan(children=2)
    below = titled(world.marker, "VLLM::Worker")
    offline = world.owned("offline.py")
    served = world.owned("vllm serve --port 8000")
    submit(worker, "execution-live", sys.executable, "-c", CODE, "VLLM::EngineCore_DP0", "0", "")
    until(lambda: bool(titled(world.marker, "VLLM::EngineCore_DP0")), "the decoy of an execution runs")
    of_execution = titled(world.marker, "VLLM::EngineCore_DP0")[0]

    answer = cleanup(worker, apply=True)
    assert pids(answer["killed"]) == pids(answer["matched"]) == sorted([engine, *below])
    assert answer["surviving"] == []
    assert not any(alive(pid) for pid in [engine, *below])
    assert all(alive(pid) for pid in (offline, served, of_execution))
    assert spared(answer, offline) == (4, f"the process {procfs.read_process(offline).ppid} that started it lives")  # pyright: ignore[reportOptionalMemberAccess]
    assert spared(answer, served)[1].startswith("its server")
    assert spared(answer, of_execution) == (3, "it carries the mark of live execution execution-live")
    assert cleanup(worker, apply=True)["matched"] == []
    worker.call("execution.stop", {"execution_id": "execution-live"})


def test_an_execution_protects_by_mark_until_supervisor_and_first_process_have_gone(
    worker: Client, world: Decoys
) -> None:
    submit(worker, "execution-x", "sleep", "60")
    marked = world.orphan(VAWS_EXECUTION_ID="execution-x")
    assert spared(cleanup(worker, apply=True), marked)[0] == 3
    status = worker.call("execution.status", {"execution_id": "execution-x"}).result
    os.kill(status["supervisor"]["pid"], signal.SIGKILL)
    until(lambda: not alive(status["supervisor"]["pid"]), "the supervisor has gone")
    assert spared(cleanup(worker, apply=True), marked)[0] == 3
    os.kill(status["root"]["pid"], signal.SIGKILL)
    until(lambda: not alive(status["root"]["pid"]), "the first process has gone")
    assert pids(cleanup(worker, apply=True)["killed"]) == [marked]


def test_an_execution_whose_record_is_torn_counts_as_live(worker: Client, world: Decoys, home: Path) -> None:
    folder = home / ".vaws" / "executions" / "execution-torn"
    folder.mkdir(parents=True)
    (folder / "status.json").write_text("{", "utf-8")
    marked = world.orphan(VAWS_EXECUTION_ID="execution-torn")
    answer = cleanup(worker, apply=True)
    assert spared(answer, marked) == (3, "it carries the mark of live execution execution-torn")


def test_what_ignores_sigterm_is_killed(worker: Client, world: Decoys) -> None:
    engine = world.orphan(options="deaf")
    answer = cleanup(worker, apply=True, top_s=0.2, term_s=0.2)
    assert pids(answer["killed"]) == [engine]
    assert not alive(engine)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to start a process of another user")
def test_another_users_process_is_spared(worker: Client, world: Decoys) -> None:
    engine = world.orphan(options="nobody")
    answer = cleanup(worker, apply=True)
    assert answer["matched"] == []
    assert spared(answer, engine) == (5, "it belongs to user 65534, not to the worker's user 0")
    assert alive(engine)


def test_a_title_with_a_protected_word_is_spared(worker: Client, world: Decoys) -> None:
    engine = world.orphan("VLLM::EngineCore for sshd")
    assert spared(cleanup(worker, apply=True), engine)[0] == 2


def test_a_process_outside_of_the_workers_scope_is_spared(start: Start, worker: Client, world: Decoys) -> None:
    engine = world.orphan()
    other = start(VAWS_SIM_MARKER=world.marker + "-other")
    answer = cleanup(other, apply=True)
    assert spared(answer, engine)[0] == 5
    assert alive(engine)


@pytest.mark.skipif(not PYTHON38, reason="no Python 3.8 is named in VAWS_TEST_PYTHON38")
def test_it_works_on_the_oldest_python(start: Start, world: Decoys) -> None:
    engine = world.orphan()
    answer = cleanup(start(worker_argv(str(PYTHON38)), VAWS_SIM_MARKER=world.marker), apply=True)
    assert pids(answer["killed"]) == [engine]


def test_only_the_shared_memory_of_ended_processes_is_removed(worker: Client, world: Decoys) -> None:
    names = [Path(f"/dev/shm/psm_{os.urandom(4).hex()}") for _ in range(3)]
    left, older, used = names
    try:
        older.write_bytes(b"x" * 10)
        world.orphan(options=f"deaf,map={left}")
        holder = world.orphan("python keeps", options=f"map={used}")
        before = {entry["path"]: entry for entry in cleanup(worker)["shared_memory"]}
        assert str(older) in before
        assert not {str(left), str(used)} & before.keys()
        everybody_asked = shared_memory.users(procfs.pids()).unreadable == 0

        answer = cleanup(worker, apply=True, top_s=0.2, term_s=0.2)
        after = {entry["path"]: entry for entry in answer["shared_memory"]}
        assert (after[str(left)]["removed"], after[str(left)]["bytes"]) == (everybody_asked, 4096)
        assert left.exists() is not everybody_asked
        assert after[str(older)]["removed"] is False
        assert "none of the ended processes" in after[str(older)]["why"]
        assert str(used) not in after
        assert older.exists()
        assert used.exists()
        assert alive(holder)
    finally:
        for name in names:
            name.unlink(missing_ok=True)


@pytest.mark.parametrize("used_before", [True, False])
def test_shared_memory_is_removed_when_everybody_could_be_asked(
    monkeypatch: pytest.MonkeyPatch, used_before: bool
) -> None:
    monkeypatch.setattr(procfs, "pids", lambda: iter([os.getpid()]))
    name = Path(f"/dev/shm/psm_{os.urandom(4).hex()}")
    try:
        name.write_bytes(b"x" * 10)
        facts = name.stat()
        before = {(facts.st_dev, facts.st_ino)} if used_before else set[tuple[int, int]]()
        with name.open("rb"):
            assert str(name) not in [entry["path"] for entry in shared_memory.orphans(before, remove=True)]
        found = {entry["path"]: entry for entry in shared_memory.orphans(before, remove=True)}
        assert found[str(name)]["removed"] is used_before
        assert name.exists() is not used_before
    finally:
        name.unlink(missing_ok=True)


def test_a_signal_goes_only_to_what_has_a_title_of_vllm_at_that_moment(world: Decoys) -> None:
    plain = world.orphan("python serves")
    engine = world.orphan()
    assert _signal(procfs.Identity(1, 0), 0) is False
    for pid, expected in ((plain, False), (engine, True)):
        one = procfs.read_process(pid)
        assert one is not None
        assert _signal(one.identity, 0) is expected
        assert _signal(one.identity._replace(start_ticks=1), 0) is False


def test_a_child_that_is_a_zombie_is_nothing_to_clean(worker: Client, world: Decoys) -> None:
    argv = [sys.executable, "-c", CODE, "VLLM::EngineCore", "0", ""]
    child = subprocess.Popen(argv, env=world.environment(), start_new_session=True)
    until(lambda: bool(titled(world.marker, "VLLM::EngineCore")), "it takes its title")
    child.kill()
    until(lambda: not alive(child.pid), "it is a zombie")
    answer = cleanup(worker, apply=True)
    child.wait(10)
    assert answer["matched"] == []
    assert child.pid not in pids(answer["spared"])

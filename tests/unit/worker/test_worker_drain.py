from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from worker_client import Client, Start, WorkerError

from vaws_mcp.worker.engine import child as child_module
from vaws_mcp.worker.engine.linux import send_signal
from vaws_mcp.worker.facts import procfs
from vaws_mcp.worker.facts.procfs import Identity

# A root, a child, and grandchildren in sessions of their own; all ignore SIGTERM, one has lost its parent.
FAMILY = """
trap '' TERM
note() { echo $BASHPID >> pids; }
note
(trap '' TERM; note; sleep 100; sleep 100) &
setsid bash -c "trap '' TERM; echo \\$\\$ >> pids; sleep 100; sleep 100" &
(setsid bash -c "trap '' TERM; echo \\$\\$ >> pids; sleep 100; sleep 100" &)
sleep 100
sleep 100
"""


def family_pids(folder: Path, count: int) -> list[int]:
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        if (folder / "pids").exists():
            pids = [int(line) for line in (folder / "pids").read_text().split()]
            if len(pids) == count:
                return pids
        time.sleep(0.01)
    raise TimeoutError(folder)


def living(pids: list[int]) -> list[int]:
    found = [procfs.read_process(pid) for pid in pids]
    return [process.pid for process in found if process is not None and process.alive]


def test_a_cancel_ends_the_whole_family_before_the_answer(worker: Client, home: Path) -> None:
    number = worker.start("run", {"command": FAMILY, "stop_grace_s": 0.2})
    pids = family_pids(home, 4)
    assert living(pids) == pids
    worker.send({"id": number, "cancel": True})
    with pytest.raises(WorkerError) as caught:
        worker.finish(number)
    assert living(pids) == []
    assert caught.value.code == "cancelled"
    assert caught.value.error["details"]["drained"]["survivors"] == []
    assert caught.value.error["details"]["drained"]["signalled"] >= 4


def test_a_timeout_ends_the_whole_family_and_is_a_result(worker: Client, home: Path) -> None:
    answer = worker.bash("echo before; " + FAMILY, timeout_s=0.5, stop_grace_s=0.2)
    assert answer.result["timed_out"] is True
    assert answer.body == b"before\n"
    assert living(family_pids(home, 4)) == []


def test_an_obedient_command_may_finish_within_the_grace(worker: Client) -> None:
    command = "trap 'seq 1 50000; echo bye; exit 7' TERM; echo on; while :; do sleep 0.05; done"
    answer = worker.bash(command, timeout_s=0.3, stop_grace_s=5, max_output_bytes=1_000_000)
    assert answer.result["exit_code"] == 7
    assert b"\n50000\nbye\n" in answer.body


def test_the_family_of_another_request_is_not_touched(worker: Client, home: Path) -> None:
    other = worker.start("run", {"command": "echo $$ > other; sleep 0.8; echo fine"})
    number = worker.start("run", {"command": FAMILY, "stop_grace_s": 0.1})
    family_pids(home, 4)
    worker.send({"id": number, "cancel": True})
    with pytest.raises(WorkerError):
        worker.finish(number)
    assert worker.finish(other).body == b"fine\n"


def test_orphans_are_adopted_and_buried(worker: Client, home: Path) -> None:
    worker.bash("(setsid sh -c 'echo $$ > orphan; sleep 0.3' > /dev/null 2>&1 &)")
    limit = time.monotonic() + 10
    while not (home / "orphan").exists() or not (home / "orphan").read_text():
        assert time.monotonic() < limit
        time.sleep(0.01)
    pid = int((home / "orphan").read_text())
    process = procfs.read_process(pid)
    assert process is not None
    assert process.ppid == worker.process.pid
    while procfs.read_process(pid) is not None:
        assert time.monotonic() < limit, "the zombie was never waited for"
        time.sleep(0.05)


def test_a_signal_never_reaches_a_later_process_with_the_pid() -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        identity = procfs.identity_of(process.pid)
        assert identity is not None
        assert send_signal(Identity(identity.pid, identity.start_ticks - 1), signal.SIGKILL) is False
        assert process.poll() is None
        assert send_signal(identity, signal.SIGKILL) is True
        assert process.wait(10) == -signal.SIGKILL
        assert send_signal(identity, signal.SIGKILL) is False


def test_the_end_of_a_child_is_seen_without_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "pidfd_open", lambda _pid: None)  # type: ignore[misc]
    null = os.open(os.devnull, os.O_RDWR)
    child = child_module.Child(child_module.Spawn(["sh", "-c", "sleep 0.1; exit 3"], "/", dict(os.environ), [null] * 3))
    os.close(null)
    poller = select.poll()
    poller.register(child.exit_fd, select.POLLIN)
    assert poller.poll(0) == []
    assert poller.poll(10_000) != []
    assert child.reap(10) == 3
    child.close()


def test_the_undertaker_takes_no_exit_code_from_a_starter() -> None:
    undertaker = child_module.Undertaker()
    ended = threading.Event()

    def bury() -> None:
        while not ended.is_set():
            undertaker.bury()

    thread = threading.Thread(target=bury)
    thread.start()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        for code in range(100):
            argv = ["sh", "-c", f"exit {code}"]
            process = undertaker.start(child_module.Spawn(argv, "/", dict(os.environ), [null] * 3))
            assert process.wait(10) == code
            undertaker.release(process.pid)
    finally:
        ended.set()
        thread.join(10)
        os.close(null)


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        identity = procfs.identity_of(process.pid)
        assert identity is not None
        assert not procfs.is_alive(identity)
        assert send_signal(identity, signal.SIGKILL) is False
    finally:
        process.wait(10)


def test_a_simulated_worker_sees_only_its_own_processes(start: Start, home: Path) -> None:
    worker = start(VAWS_SIM="1", VAWS_SIM_MARKER="only-this", VAWS_SIM_BOOT_ID="b")
    number = worker.start("run", {"command": FAMILY, "stop_grace_s": 0.1})
    pids = family_pids(home, 4)
    assert all(procfs.has_variable(pid, b"VAWS_SIM_MARKER=only-this") for pid in pids)
    worker.send({"id": number, "cancel": True})
    with pytest.raises(WorkerError):
        worker.finish(number)
    assert living(pids) == []


@pytest.mark.parametrize(
    ("raw", "comm"),
    [
        (b"12 (a b) c) S 1 2 3 0 -1 4 1 1 1 1 1 1 1 1 20 0 1 0 777 1 1\n", "a b) c"),
        (b"12 () Z 1 2 3 0 -1 4 1 1 1 1 1 1 1 1 20 0 1 0 777 1 1\n", ""),
    ],
)
def test_names_with_parentheses_are_parsed(raw: bytes, comm: str) -> None:
    process = procfs.parse_stat(raw, 0)
    assert process is not None
    assert (process.comm, process.ppid, process.pgid, process.sid, process.start_ticks) == (comm, 1, 2, 3, 777)


@pytest.mark.parametrize("raw", [b"", b"12", b"12 (x) S 1", b"x (x) S " + b"1 " * 30])
def test_what_is_no_stat_line_is_none(raw: bytes) -> None:
    assert procfs.parse_stat(raw, 0) is None

"""A worker that is killed leaves nothing behind that nobody knows: the next one ends it."""

from __future__ import annotations

import time
from pathlib import Path

from job_calls import FAMILY, WAIT_S, Start, job, lives, pid_list, status, until


def files(home: Path) -> list[Path]:
    return list((home / ".vaws" / "inflight").iterdir())


def test_the_next_worker_ends_the_command_that_a_killed_one_had_under_way(start: Start, home: Path) -> None:
    first = start()
    first.start("run", {"command": FAMILY, "cwd": str(home)})
    pids = until(lambda: len(pid_list(home)) == 2 and pid_list(home), "no family")
    first.process.kill()
    first.process.wait(WAIT_S)
    assert all(lives(pid) for pid in pids)
    start()
    until(lambda: not any(lives(pid) for pid in pids), "the family lives on")
    until(lambda: not files(home), "the file of the killed worker is still there")


def test_what_a_command_left_in_the_background_is_left_alone(start: Start, home: Path) -> None:
    first = start()
    pid = int(first.bash("setsid sleep 100 >/dev/null 2>&1 & echo $!").body)
    try:
        first.process.kill()
        first.process.wait(WAIT_S)
        start().call("ping")
        until(lambda: not files(home), "the file of the killed worker is still there")
        assert lives(pid)
    finally:
        start().bash(f"kill {pid}")


def test_a_job_is_no_leftover(start: Start, home: Path) -> None:
    first = start()
    job_id = job(first, FAMILY, cwd=str(home))
    pids = until(lambda: len(pid_list(home)) == 2 and pid_list(home), "no family")
    first.process.kill()
    first.process.wait(WAIT_S)
    second = start()
    until(lambda: not files(home), "the file of the killed worker is still there")
    assert status(second, job_id)["state"] == "lost_keeper"
    assert all(lives(pid) for pid in pids)
    second.call("job.stop", {"job_id": job_id})
    assert not any(lives(pid) for pid in pids)


def test_a_command_of_a_living_worker_is_left_alone(start: Start, home: Path) -> None:
    first = start()
    number = first.start("run", {"command": "echo $$ > pid; exec sleep 0.7", "cwd": str(home)})
    until(lambda: (home / "pid").exists() and (home / "pid").read_text(encoding="utf-8").strip(), "it never began")
    start().call("ping")
    began = time.monotonic()
    assert first.finish(number).result["exit_code"] == 0
    assert time.monotonic() - began < WAIT_S


def test_a_worker_that_ends_in_order_removes_its_file(start: Start, home: Path) -> None:
    client = start()
    client.bash("true")
    assert len(files(home)) == 1
    client.close_input()
    assert files(home) == []


def test_a_worker_goes_on_when_commands_cannot_be_noted(start: Start, home: Path) -> None:
    (home / ".vaws").mkdir()
    (home / ".vaws" / "inflight").write_text("in the way", encoding="utf-8")
    assert start().bash("echo fine").body == b"fine\n"

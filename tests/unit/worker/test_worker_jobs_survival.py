"""What survives the connection and the worker, what is limited, and what is removed again."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from pathlib import Path

import pytest
from job_calls import FAMILY, WAIT_S, Start, ended, job, lives, pid_list, read_all, status, until
from worker_client import Client, WorkerError, rss_kib


def test_a_job_survives_its_connection_and_the_next_worker_commands_it(start: Start, home: Path) -> None:
    first = start()
    job_id = job(first, "echo one; read line; echo got $line; sleep 0.3; exit 5", stdin_open=True)
    close_without_waiting(first)
    assert given_up(first)
    second = start()
    assert status(second, job_id)["state"] == "running"
    assert second.call("job.stdin", {"job_id": job_id}, b"word\n").result["written"] == 5
    assert read_all(second, job_id) == b"one\ngot word\n"
    found = ended(second, job_id)
    assert (found["state"], found["exit_code"]) == ("exited", 5)
    assert first.process.wait(WAIT_S) == 0


def given_up(client: Client) -> bool:
    """Wait until the worker has closed its end of the connection."""
    assert client.process.stdout is not None
    ready, _, _ = select.select([client.process.stdout], [], [], WAIT_S)
    return bool(ready) and os.read(client.process.stdout.fileno(), 1) == b""


def close_without_waiting(client: Client) -> None:
    assert client.process.stdin is not None
    client.process.stdin.close()


def test_a_new_worker_stops_a_job_of_another_one(start: Start) -> None:
    first, second = start(), start()
    job_id = job(first, "sleep 100 & sleep 100")
    found = second.call("job.stop", {"job_id": job_id}).result
    assert (found["state"], found["signal_name"], found["processes"]) == ("exited", "SIGINT", [])


def test_a_family_whose_keeper_was_killed_is_found_and_drained(start: Start, home: Path) -> None:
    first = start()
    job_id = job(first, FAMILY, cwd=str(home))
    pids = until(lambda: len(pid_list(home)) == 2 and pid_list(home), "no family")
    first.process.kill()
    first.process.wait(WAIT_S)
    second = start()
    found = status(second, job_id)
    assert found["state"] == "lost_keeper"
    assert {process["pid"] for process in found["processes"]} >= set(pids)
    assert second.call("job.tail", {"job_id": job_id, "wait_s": 5.0}).result["eof"] is True
    with pytest.raises(WorkerError) as caught:
        second.call("job.stdin", {"job_id": job_id}, b"x")
    assert caught.value.code == "stdin_closed"
    found = second.call("job.stop", {"job_id": job_id, "interrupt_s": 0.1, "grace_s": 0.1}).result
    assert (found["state"], found["exit_code"], found["processes"]) == ("lost", None, [])
    assert not any(lives(pid) for pid in pids)
    assert read_all(second, job_id) == b""


def test_a_lost_connection_drains_a_command_unless_it_may_detach(start: Start, home: Path) -> None:
    first = start()
    first.start("run", {"command": f"echo $$ > {home}/plain; sleep 100", "yield_s": 60.0})
    first.start("run", {"command": f"echo $$ > {home}/kept; sleep 100", "yield_s": 60.0, "detach": True, "job_id": "j"})
    until(lambda: (home / "plain").exists() and (home / "kept").exists(), "not started")
    until(lambda: (home / "plain").read_text() and (home / "kept").read_text(), "not written")
    close_without_waiting(first)
    until(lambda: not lives(int((home / "plain").read_text())), "not drained")
    second = start()
    until((home / ".vaws" / "jobs" / "j" / "job.json").exists, "no job")
    assert status(second, "j")["state"] == "running"
    assert lives(int((home / "kept").read_text()))
    assert second.call("job.stop", {"job_id": "j"}).result["state"] == "exited"


def test_a_cancel_before_it_yields_ends_the_command_also_when_it_may_detach(worker: Client, home: Path) -> None:
    number = worker.start("run", {"command": f"echo $$ > {home}/pid; sleep 100", "yield_s": 60.0, "detach": True})
    pid = int(until(lambda: (home / "pid").exists() and (home / "pid").read_text(), "not started"))
    worker.send({"id": number, "cancel": True})
    with pytest.raises(WorkerError, match="cancelled"):
        worker.finish(number)
    assert not lives(pid)
    assert worker.call("job.list").result["jobs"] == []


def test_a_log_has_a_limit_and_what_was_dropped_is_counted(worker: Client) -> None:
    job_id = job(worker, "head -c 3000000 /dev/zero; echo err >&2; sleep 0.1", log_limit=1_000_000)
    found = ended(worker, job_id)
    streams = found["streams"]
    assert (streams["stdout"]["bytes"], streams["stdout"]["dropped"]) == (1_000_000, 2_000_000)
    assert (streams["stderr"]["bytes"], streams["stderr"]["dropped"]) == (0, 4)
    page = worker.call("job.tail", {"job_id": job_id, "offset": 999_990})
    assert (len(page.body), page.result["eof"], page.result["dropped"]) == (10, True, 2_000_000)


def test_much_output_of_a_job_needs_little_memory(worker: Client) -> None:
    job_id = job(worker, "head -c 300000000 /dev/zero | tr '\\0' x; printf END", log_limit=50_000_000)
    found = ended(worker, job_id)
    assert found["streams"]["stdout"]["bytes"] == 50_000_000
    assert found["streams"]["stdout"]["dropped"] == 250_000_003
    assert rss_kib(worker.process.pid) < 60_000


def test_a_command_that_can_not_be_kept_is_ended_and_named(worker: Client, home: Path) -> None:
    (home / ".vaws").mkdir()
    (home / ".vaws" / "jobs").write_text("in the way")
    with pytest.raises(WorkerError) as caught:
        worker.bash(f"echo $$ > {home}/pid; sleep 100", yield_s=0.5)
    assert "the command was ended" in caught.value.error["message"]
    assert caught.value.error["retry_safe"] is False
    assert not lives(int((home / "pid").read_text()))


def test_a_hundred_jobs_run_at_once(worker: Client) -> None:
    numbers = [worker.start("run", {"command": f"sleep 0.5; echo {n}", "yield_s": 0.0}) for n in range(100)]
    ids = [str(worker.finish(number).result["job_id"]) for number in numbers]
    assert [read_all(worker, job_id) for job_id in ids] == [b"%d\n" % n for n in range(100)]


def test_old_finished_jobs_are_removed_and_live_ones_never(start: Start, home: Path) -> None:
    worker = start()
    live, done = job(worker, "sleep 100"), job(worker, "true")
    ended(worker, done)
    folder = home / ".vaws" / "jobs"
    long_ago = time.time() - 30 * 86400
    for name in (live, done):
        os.utime(folder / name / "job.json", (long_ago, long_ago))
    template = json.loads((folder / done / "job.json").read_text())
    for n in range(230):
        (folder / f"old-{n:03d}").mkdir()
        record = {**template, "job_id": f"old-{n:03d}", "began": template["began"] - 1000 + n}
        (folder / f"old-{n:03d}" / "job.json").write_text(json.dumps(record))
        os.utime(folder / f"old-{n:03d}" / "job.json", (time.time() - 100, time.time() - 100))
    for name, age in (("unrecorded-old", 8), ("unrecorded-new", 6)):
        (folder / name).mkdir()
        (folder / name / "stdout.log").touch()
        for path in (folder / name / "stdout.log", folder / name):
            os.utime(path, (time.time() - age * 86400, time.time() - age * 86400))
    other = start()
    job(other, "true")
    until(lambda: not (folder / done).exists() and not (folder / "old-000").exists(), "not cleaned")
    until(lambda: len(list(folder.glob("old-*"))) <= 200, "too many left")
    assert (folder / "old-229").exists()
    assert (folder / "unrecorded-new").exists()
    assert not (folder / "unrecorded-old").exists()
    assert status(worker, live)["state"] == "running"
    worker.call("job.stop", {"job_id": live})


def test_a_killed_job_is_reported_with_its_signal(worker: Client) -> None:
    job_id = job(worker, "exec sleep 100")
    root = status(worker, job_id)["root"]
    os.kill(root["pid"], signal.SIGKILL)
    assert ended(worker, job_id)["signal_name"] == "SIGKILL"

"""Commands that outlast their request: yielding, paging, writing and stopping."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_calls import FAMILY, ended, job, lives, pid_list, read_all, status, until
from worker_client import Client, WorkerError


def test_a_command_that_ends_in_time_makes_no_files(worker: Client, home: Path) -> None:
    answer = worker.bash("echo fast; exit 3", yield_s=5.0)
    assert (answer.result["running"], answer.result["exit_code"], answer.body) == (False, 3, b"fast\n")
    assert (answer.result["job_id"], answer.result["log_dir"]) == (None, None)
    assert not (home / ".vaws" / "jobs").exists()


def test_a_command_that_takes_longer_becomes_a_job_that_can_be_followed(worker: Client) -> None:
    answer = worker.bash("echo early; echo err >&2; sleep 0.6; echo late; exit 4", yield_s=0.2)
    result = answer.result
    assert (result["running"], result["exit_code"]) == (True, None)
    assert answer.body == b"early\nerr\n"
    assert (result["stdout"]["cursor"], result["stderr"]["cursor"]) == (6, 4)
    params = {"job_id": result["job_id"], "offset": result["stdout"]["cursor"], "wait_s": 5.0}
    assert worker.call("job.tail", params).body == b"late\n"
    found = ended(worker, result["job_id"])
    assert (found["state"], found["exit_code"], found["signal_name"]) == ("exited", 4, None)
    assert found["processes"] == []
    assert read_all(worker, result["job_id"]) == b"early\nlate\n"
    assert read_all(worker, result["job_id"], "stderr") == b"err\n"


def test_a_signal_that_ends_a_job_is_named(worker: Client) -> None:
    found = ended(worker, job(worker, "sleep 0.1; kill -SEGV $$"))
    assert (found["exit_code"], found["signal_name"]) == (None, "SIGSEGV")


def test_output_that_is_cut_in_the_answer_is_whole_in_the_log(worker: Client) -> None:
    answer = worker.bash("seq 1 100000", yield_s=20.0, max_output_bytes=1000)
    result = answer.result
    assert (result["running"], result["exit_code"], result["stdout"]["truncated"]) == (False, 0, True)
    whole = b"".join(b"%d\n" % n for n in range(1, 100001))
    assert read_all(worker, result["job_id"], max_bytes=100_000) == whole
    assert status(worker, result["job_id"])["state"] == "exited"


def test_what_a_large_command_left_in_the_background_can_be_stopped(worker: Client) -> None:
    answer = worker.bash("seq 1 1000; sleep 100 & echo $!", yield_s=20.0, max_output_bytes=100)
    pid = int(answer.body.split()[-1])
    assert lives(pid)
    found = worker.call("job.stop", {"job_id": answer.result["job_id"]}).result
    assert (found["drained"]["signalled"], found["processes"], lives(pid)) == (1, [], False)


def test_a_character_that_is_not_complete_waits(worker: Client) -> None:
    answer = worker.bash(r"printf 'a\303'; sleep 0.8; printf '\251b'; sleep 0.2", yield_s=0.3)
    assert (answer.body, answer.result["stdout"]["cursor"], answer.result["stdout"]["bytes"]) == (b"a", 1, 2)
    page = worker.call("job.tail", {"job_id": answer.result["job_id"], "offset": 1, "wait_s": 0.05})
    assert (page.body, page.result["next_offset"], page.result["size"]) == (b"", 1, 2)
    assert (
        worker.call("job.tail", {"job_id": answer.result["job_id"], "offset": 1, "wait_s": 5.0}).body == "éb".encode()
    )


def test_a_negative_offset_counts_from_the_end_and_begins_with_a_whole_character(worker: Client) -> None:
    job_id = job(worker, "printf 'xéy'; sleep 0.1")
    ended(worker, job_id)
    page = worker.call("job.tail", {"job_id": job_id, "offset": -2})
    assert (page.result["offset"], page.body) == (3, b"y")
    assert worker.call("job.tail", {"job_id": job_id, "offset": -100}).body == "xéy".encode()
    with pytest.raises(WorkerError, match="beyond the end"):
        worker.call("job.tail", {"job_id": job_id, "offset": 5})


chunks = st.lists(
    st.one_of(st.binary(min_size=1, max_size=40), st.text(min_size=1, max_size=20).map(lambda text: text.encode())),
    min_size=1,
    max_size=12,
)
pages = st.lists(st.integers(1, 50), min_size=1, max_size=6)


@given(pieces=chunks, sizes=pages)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pages_of_any_size_put_together_give_exactly_what_was_written(
    worker: Client, pieces: list[bytes], sizes: list[int]
) -> None:
    octal = [" ".join(f"\\{byte:03o}" for byte in piece).replace(" ", "") for piece in pieces]
    job_id = job(worker, "".join(f"printf '{piece}'; " for piece in octal))
    offset, found, turn = 0, b"", 0
    for turn in range(2000):
        params = {"job_id": job_id, "offset": offset, "max_bytes": sizes[turn % len(sizes)], "wait_s": 0.5}
        page = worker.call("job.tail", params)
        found += page.body
        offset = page.result["next_offset"]
        if page.result["eof"]:
            break
    assert turn < 1999
    assert found == b"".join(pieces)


def test_input_reaches_a_job_and_its_end_too(worker: Client) -> None:
    job_id = job(worker, "cat; echo done", b"first ", stdin_open=True)
    sent = worker.call("job.stdin", {"job_id": job_id}, b"second\n").result
    assert (sent["written"], sent["remaining"], sent["closed"]) == (7, 0, False)
    assert worker.call("job.stdin", {"job_id": job_id, "eof": True}).result["closed"] is True
    assert read_all(worker, job_id) == b"first second\ndone\n"
    with pytest.raises(WorkerError) as caught:
        worker.call("job.stdin", {"job_id": job_id}, b"x")
    assert caught.value.code == "stdin_closed"


def test_input_that_is_not_taken_is_counted_to_the_byte(worker: Client, home: Path) -> None:
    go = home / "go"
    job_id = job(worker, f"until [ -e {go} ]; do sleep 0.02; done; cat", stdin_open=True)
    data = "häßlich\n".encode() * 40_000
    sent = worker.call("job.stdin", {"job_id": job_id, "wait_s": 0.2}, data).result
    assert sent["written"] + sent["remaining"] == len(data)
    assert 0 < sent["written"] < len(data)
    data[sent["written"] :].decode()  # the rest begins with a whole character
    go.touch()
    rest = worker.call("job.stdin", {"job_id": job_id, "eof": True, "wait_s": 10.0}, data[sent["written"] :]).result
    assert (rest["remaining"], rest["closed"]) == (0, True)
    assert read_all(worker, job_id, max_bytes=1 << 20) == data


def test_input_for_a_command_that_reads_no_more_is_refused_or_reported_closed(worker: Client) -> None:
    job_id = job(worker, "exec <&-; sleep 30", stdin_open=True)
    until(lambda: worker.call("job.stdin", {"job_id": job_id, "wait_s": 0.1}, b"x" * 10).result["closed"], "closed")
    worker.call("job.stop", {"job_id": job_id})


def test_stop_drains_the_whole_family_and_says_what_it_drained(worker: Client, home: Path) -> None:
    job_id = job(worker, FAMILY, cwd=str(home))
    pids = until(lambda: len(pid_list(home)) == 2 and pid_list(home), "no family")
    assert len(status(worker, job_id)["processes"]) >= 4
    began = time.monotonic()
    found = worker.call("job.stop", {"job_id": job_id, "interrupt_s": 0.2, "grace_s": 0.2}).result
    assert time.monotonic() - began < 5
    assert found["state"] == "exited"
    assert found["stop_requested_at"] is not None
    assert found["drained"]["signalled"] >= 4
    assert (found["drained"]["survivors"], found["processes"]) == ([], [])
    assert not any(lives(pid) for pid in pids)
    again = worker.call("job.stop", {"job_id": job_id}).result
    assert (again["state_before"], again["drained"]["signalled"]) == ("exited", 0)


def test_stop_begins_gently(worker: Client) -> None:
    job_id = job(worker, "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done")
    until(lambda: b"ready" in worker.call("job.tail", {"job_id": job_id}).body, "not ready")
    found = worker.call("job.stop", {"job_id": job_id}).result
    assert (found["exit_code"], read_all(worker, job_id)) == (7, b"ready\ninterrupted\n")


def test_the_time_limit_also_ends_a_job(worker: Client) -> None:
    job_id = job(worker, "sleep 100 & sleep 100", timeout_s=0.3, stop_grace_s=0.2)
    found = ended(worker, job_id)
    assert (found["state"], found["cause"], found["processes"]) == ("exited", "timeout", [])


def test_what_a_job_left_in_the_background_is_still_read_and_can_be_stopped(worker: Client) -> None:
    job_id = job(worker, "(sleep 0.5; echo late; sleep 100) & echo started", yield_s=0.0)
    until(lambda: status(worker, job_id)["state"] == "exited", "not exited")
    page = worker.call("job.tail", {"job_id": job_id, "offset": 8, "wait_s": 5.0})
    assert (page.body, page.result["eof"], page.result["state"]) == (b"late\n", False, "exited")
    assert worker.call("job.stop", {"job_id": job_id}).result["drained"]["signalled"] >= 1
    assert read_all(worker, job_id) == b"started\nlate\n"


def test_a_terminal_is_one_and_its_input_and_hangup_work(worker: Client) -> None:
    command = "test -t 0 && test -t 1 && test -t 2 && stty size && echo tty; read line; echo got $line; cat; echo end"
    job_id = job(worker, command, tty=True)
    until(lambda: b"tty" in worker.call("job.tail", {"job_id": job_id}).body, "no terminal")
    assert b"40 120\r\n" in worker.call("job.tail", {"job_id": job_id}).body
    worker.call("job.stdin", {"job_id": job_id}, b"hello\n")
    until(lambda: b"got hello" in worker.call("job.tail", {"job_id": job_id}).body, "no input")
    worker.call("job.stdin", {"job_id": job_id, "eof": True})
    assert read_all(worker, job_id).endswith(b"end\r\n")
    shell = job(worker, "trap 'echo hung up; exit 9' HUP; echo ready; while :; do sleep 0.05; done", tty=True)
    until(lambda: b"ready" in worker.call("job.tail", {"job_id": shell}).body, "not ready")
    assert worker.call("job.stop", {"job_id": shell}).result["exit_code"] == 9


def test_jobs_are_listed_newest_first_and_running_ones_alone(worker: Client) -> None:
    first, second = job(worker, "true"), job(worker, "sleep 100")
    ended(worker, first)
    listed = worker.call("job.list").result
    assert [one["job_id"] for one in listed["jobs"]] == [second, first]
    assert worker.call("job.list", {"limit": 1}).result["left_out"] == 1
    only = worker.call("job.list", {"running_only": True}).result["jobs"]
    assert [(one["job_id"], one["state"], one["command"]) for one in only] == [(second, "running", "sleep 100")]
    worker.call("job.stop", {"job_id": second})


@pytest.mark.parametrize("job_id", ["job-unknown", "../x", "-x", "a/b"])
def test_an_unknown_job_is_refused_by_every_method(worker: Client, job_id: str) -> None:
    for method in ("job.status", "job.tail", "job.stdin", "job.stop"):
        with pytest.raises(WorkerError) as caught:
            worker.call(method, {"job_id": job_id})
        assert caught.value.code in ("job_unknown", "bad_params")
        assert caught.value.error["layer"] == "caller"

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from worker_client import Client, Start, WorkerError, rss_kib

from vaws_mcp.worker.engine.run import run
from vaws_mcp.worker.request import Call, Request


def test_both_streams_and_the_exit_code_come_back_apart(worker: Client) -> None:
    answer = worker.bash("echo out; echo err >&2; exit 3")
    assert answer.result["exit_code"] == 3
    assert answer.result["signal"] is None
    assert answer.body == b"out\nerr\n"
    assert answer.result["stdout"]["kept_head"] == 4
    assert answer.result["env_source"] == "direct"


def test_death_by_signal_is_named(worker: Client) -> None:
    result = worker.bash("kill -SEGV $$").result
    assert (result["exit_code"], result["signal"], result["signal_name"]) == (None, 11, "SIGSEGV")


def test_arguments_reach_the_command_unchanged(worker: Client) -> None:
    argv = ["a b", "$(id)", "'", '"', "-n", "", "é\n"]
    assert worker.call("run", {"argv": ["printf", "%s|", *argv]}).body.decode() == "|".join(argv) + "|"


def test_a_name_that_is_not_utf8_reaches_the_command(worker: Client) -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert worker.call("run", {"argv": ["printf", "%s", name]}).body == b"caf\xe9"


def test_the_command_starts_in_home_unless_told_otherwise(worker: Client, home: Path, tmp_path: Path) -> None:
    assert worker.bash("pwd").body.decode().strip() == str(home)
    assert worker.bash("pwd", cwd=str(tmp_path)).body.decode().strip() == str(tmp_path)


def test_variables_are_set_and_unset(start: Start) -> None:
    worker = start(GONE="1", SSH_CONNECTION="1 2 3 4", SSH_CLIENT="1 2 3")
    answer = worker.bash('echo "$A ${GONE-no} ${SSH_CONNECTION-no} ${SSH_CLIENT-no}"', env={"A": "x y", "GONE": None})
    assert answer.body == b"x y no no no\n"


@pytest.mark.parametrize(
    ("params", "code", "named"),
    [
        ({"argv": ["no-such-program"]}, "command_not_found", "no-such-program"),
        ({"command": "true", "cwd": "/no/such/dir"}, "not_found", "/no/such/dir"),
        ({"argv": ["/proc/self/status"]}, "permission_denied", "/proc/self/status"),
    ],
)
def test_what_cannot_start_is_named(worker: Client, params: dict[str, object], code: str, named: str) -> None:
    with pytest.raises(WorkerError) as caught:
        worker.call("run", params)
    assert caught.value.code == code
    assert named in caught.value.error["message"]


def test_standard_input_is_empty_by_default(worker: Client) -> None:
    assert worker.bash("cat; echo end").body == b"end\n"


@pytest.mark.parametrize("size", [1, 4096, 70000, 3_000_000])
def test_standard_input_is_the_body(worker: Client, size: int) -> None:
    assert worker.call("run", {"argv": ["wc", "-c"]}, b"x" * size).body.split() == [b"%d" % size]


def test_open_standard_input_takes_more_until_its_end(worker: Client) -> None:
    number = worker.start("run", {"argv": ["cat"], "stdin_open": True, "stream": True}, b"one ")
    head, body = worker.wait_event(number)
    assert (head["stream"], head["offset"], body) == ("stdout", 0, b"one ")
    big = b"y" * 1_000_000
    worker.send({"id": number, "more": "stdin", "eof": False}, big)
    worker.send({"id": number, "more": "stdin", "eof": True}, b" three")
    answer = worker.finish(number)
    assert b"".join(body for _, body in answer.events) == b"one " + big + b" three"
    assert answer.result["exit_code"] == 0


def test_input_that_nobody_reads_does_no_harm(worker: Client) -> None:
    number = worker.start("run", {"argv": ["true"], "stdin_open": True}, b"z" * 1_000_000)
    assert worker.finish(number).result["exit_code"] == 0


def test_streamed_events_have_offsets_without_gaps(worker: Client) -> None:
    number = worker.start("run", {"command": "seq 1 100000; echo done >&2", "stream": True})
    answer = worker.finish(number)
    position = {"stdout": 0, "stderr": 0}
    for head, body in answer.events:
        assert head["offset"] == position[head["stream"]]
        position[head["stream"]] += len(body)
    assert position == {name: answer.result[name]["bytes"] for name in position}


@pytest.mark.parametrize(("size", "limit"), [(10, 10), (11, 10), (0, 10), (1000, 7), (50, 0), (50, 1)])
def test_head_and_tail_are_kept_and_the_rest_is_counted(worker: Client, size: int, limit: int) -> None:
    text = bytes(ord("a") + n % 26 for n in range(size))
    answer = worker.call("run", {"argv": ["cat"], "max_output_bytes": limit}, text)
    kept = answer.result["stdout"]
    assert kept["bytes"] == size
    assert kept["truncated"] is (size > limit)
    if size <= limit:
        assert answer.body == text
    else:
        assert (kept["kept_head"], kept["kept_tail"]) == (limit // 2, limit - limit // 2)
        assert answer.body == text[: limit // 2] + text[size - (limit - limit // 2) :]


def test_much_output_needs_little_memory(worker: Client) -> None:
    answer = worker.bash("head -c 200000000 /dev/zero | tr '\\0' x; printf END")
    assert answer.result["stdout"]["bytes"] == 200_000_003
    assert answer.body.endswith(b"xEND")
    assert len(answer.body) == 30000
    assert rss_kib(worker.process.pid) < 60_000


def test_logs_keep_everything(worker: Client, home: Path) -> None:
    answer = worker.bash("seq 1 200000; echo err >&2", log=True, job_id="job-1", max_output_bytes=100)
    folder = home / ".vaws" / "jobs" / "job-1"
    assert answer.result["log_dir"] == str(folder)
    assert (folder / "stdout.log").read_text().splitlines() == [str(n) for n in range(1, 200001)]
    assert (folder / "stderr.log").read_bytes() == b"err\n"
    assert (folder / "stdout.log").stat().st_mode & 0o777 == 0o600


def test_output_to_dev_stderr_is_not_overwritten(worker: Client) -> None:
    answer = worker.bash("for i in 1 2 3; do echo $i > /dev/stderr; done")
    assert answer.body == b"1\n2\n3\n"


def test_a_background_child_that_holds_stdout_does_not_delay_the_answer(worker: Client, home: Path) -> None:
    answer = worker.bash(f"(sleep 1; echo late; echo alive > {home}/late) & echo started")
    assert answer.body == b"started\n"
    assert not (home / "late").exists()
    wait_until((home / "late").exists)


def wait_until(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + 10
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_a_slow_reader_gets_all_that_a_command_wrote_before_it_ended() -> None:
    def slow(_head: dict[str, object], _body: bytes) -> None:
        time.sleep(0.03)

    params = {"command": "head -c 1500000 /dev/zero; printf end", "max_output_bytes": 2 << 20, "stream": True}
    result, body = run(Request(Call(1, "run", params, b"", None), slow))
    assert (result["stdout"]["bytes"], body[-3:]) == (1_500_003, b"end")


def test_late_output_of_a_background_child_reaches_the_log(worker: Client, home: Path) -> None:
    worker.bash("(sleep 0.4; echo late) & echo started", log=True, job_id="job-2")
    log = home / ".vaws" / "jobs" / "job-2" / "stdout.log"
    wait_until(lambda: log.read_text() == "started\nlate\n")


def test_a_login_shell_reads_the_profile(worker: Client, home: Path) -> None:
    (home / ".bash_profile").write_text("export FROM_PROFILE=yes\n")
    assert worker.bash("echo $FROM_PROFILE").body == b"\n"
    answer = worker.bash("echo $FROM_PROFILE", login_shell=True)
    assert (answer.body, answer.result["env_source"]) == (b"yes\n", "login_shell")
    argv = ["printf", "%s|", "a b", "$HOME"]
    assert worker.call("run", {"argv": argv, "login_shell": True}).body == b"a b|$HOME|"


def test_bashrc_is_not_read(start: Start, home: Path) -> None:
    (home / ".bashrc").write_text("echo noise\n")
    assert start(SSH_CLIENT="127.0.0.1 1 22", SSH_TTY="/dev/pts/0").bash("echo clean").body == b"clean\n"


def test_a_hundred_commands_run_side_by_side(worker: Client) -> None:
    began = time.monotonic()
    numbers = [worker.start("run", {"command": f"sleep 0.3; echo {n}"}) for n in range(100)]
    outputs = [worker.finish(number).body for number in numbers]
    assert outputs == [b"%d\n" % n for n in range(100)]
    assert time.monotonic() - began < 10

"""The same calls give the same answers on a real SSH server, in the simulated container and on this machine."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest
from places import Place, lives, until

pytestmark = pytest.mark.asyncio(loop_scope="function")


async def test_output_error_and_exit_code_are_kept_apart(place: Place) -> None:
    async with place.open() as box:
        answer = await box.bash("echo out; echo err >&2; exit 3")
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("out\n", "err\n", 3)
    assert (answer["outcome"], answer["status"]) == ("success", "non_zero_exit")
    assert answer.get("simulated", False) == (place.kind == "sim")
    assert answer["warnings"] == []


async def test_the_end_by_a_signal_is_named(place: Place) -> None:
    async with place.open() as box:
        answer = await box.bash("kill -KILL $$")
    assert (answer["exit_code"], answer["signal"], answer["status"]) == (None, "SIGKILL", "signalled")


async def test_standard_input_is_what_was_given_or_empty(place: Place) -> None:
    async with place.open() as box:
        assert (await box.bash("cat", stdin="grüße\n" * 20_000, max_output_bytes=1 << 20))[
            "stdout"
        ] == "grüße\n" * 20_000
        assert (await box.bash("cat; echo end"))["stdout"] == "end\n"
        assert (await box.bash("exit 0", stdin="nobody reads this" * 10_000))["exit_code"] == 0


async def test_a_time_limit_ends_the_whole_family(place: Place) -> None:
    async with place.open() as box:
        answer = await box.bash("sleep 300 & echo $!; setsid sleep 300 & echo $!; wait", timeout_ms=500)
    assert (answer["outcome"], answer["timed_out"]) == ("timeout", True)
    assert answer["drained"]["survivors"] == []
    pids = [int(line) for line in answer["stdout"].split()]
    assert len(pids) == 2
    assert not [pid for pid in pids if lives(pid)]


async def test_a_cancelled_call_ends_the_command(place: Place) -> None:
    note = place.files / "cancelled-pid"
    async with place.open() as box:
        async with anyio.create_task_group() as group:
            group.start_soon(box.bash, f"echo $$ > {note}.new; mv {note}.new {note}; sleep 300")
            await until(note.exists, "the command has started")
            group.cancel_scope.cancel()
        assert not lives(int(note.read_text()))
        assert (await box.bash("echo still here"))["stdout"] == "still here\n"


async def test_directory_and_environment_are_what_was_asked_for(place: Place) -> None:
    async with place.open() as box:
        answer = await box.bash('pwd; printf %s "$WORD"', cwd=str(place.files), env={"WORD": "a 'b' \"c\" $d\nü"})
        assert answer["stdout"] == f"{place.files}\na 'b' \"c\" $d\nü"
        missing = await box.bash("pwd", cwd="/no/such/place")
    assert missing["error"]["layer"] == "remote_env"
    assert "/no/such/place" in missing["error"]["message"]


async def test_nothing_of_ours_leaks_into_a_commands_environment(place: Place) -> None:
    async with place.open() as box:
        names = {line.split("=")[0] for line in (await box.bash("env"))["stdout"].splitlines()}
    assert "PYTHONPATH" not in names
    assert "HOME" in names


async def test_a_file_comes_back_as_it_was_written(place: Place) -> None:
    path, content = str(place.files / "deep" / "file.txt"), "erste\nzweite ü\ndritte"
    async with place.open() as box:
        written = await box.call("remote_write", file_path=path, content=content)
        read = await box.call("remote_read", file_path=path)
        part = await box.call("remote_read", file_path=path, offset=2, limit=1)
        other = await box.call("remote_write", file_path=path, content="x", expected_sha256="0" * 64)
        after = await box.call("remote_read", file_path=path)
    assert written["created"] is True
    assert (read["content"], read["sha256"], read["total_lines"]) == (content, written["sha256"], 3)
    assert (part["content"].rstrip("\n"), part["next_offset"]) == ("zweite ü", 3)
    assert other["outcome"] != "success"
    assert after["sha256"] == written["sha256"]


async def test_a_missing_file_is_the_endpoints_failure_and_named(place: Place) -> None:
    async with place.open() as box:
        answer = await box.call("remote_read", file_path="/no/such/file")
    assert (answer["error"]["code"], answer["error"]["layer"]) == ("not_found", "remote_env")
    assert "/no/such/file" in answer["error"]["message"]


async def test_a_probe_says_where_we_are(place: Place) -> None:
    async with place.open() as box:
        answer = await box.call("remote_probe")
        worker = int((await box.bash("echo $PPID"))["stdout"])
    assert answer["outcome"] == "success"
    assert answer["endpoint"].startswith(place.kind)
    assert answer["worker"]["pid"] == worker
    assert answer["facts"]["tools"]["bash"]
    assert bool(answer["facts"]["npu_devices"]) <= (place.kind == "sim")


async def test_bytes_that_are_no_text_do_not_break_the_connection(place: Place) -> None:
    async with place.open() as box:
        answer = await box.bash(r"printf '\xff\xfe\x00ok'; printf '\x80' >&2")
        assert (answer["stdout"], answer["stdout_bytes"]) == ("\ufffd\ufffd\x00ok", 5)
        assert answer["stderr"] == "\ufffd"
        assert (await box.bash("echo $PPID"))["exit_code"] == 0


async def test_large_output_is_cut_in_the_middle_and_counted(place: Place) -> None:
    async with place.open() as box:
        answer = await box.bash("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert answer["truncated"]
    assert answer["stdout_bytes"] == 20_000_012
    assert len(answer["stdout"]) < 31_000
    assert answer["stdout"].startswith("first\n")
    assert answer["stdout"].endswith("last\n")
    assert "bytes left out" in answer["stdout"]


async def test_fifty_commands_at_once_share_one_worker_and_do_not_wait_for_each_other(place: Place) -> None:
    answers: dict[int, dict[str, Any]] = {}
    async with place.open() as box:

        async def ask(number: int) -> None:
            answers[number] = await box.bash(f"sleep 0.5; echo {number} $PPID; exit {number}")

        begin = time.monotonic()
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(ask, number)
    assert time.monotonic() - begin < 15  # one after the other would take 25 s
    assert [answers[number]["exit_code"] for number in range(50)] == list(range(50))
    assert [answers[number]["stdout"].split()[0] for number in range(50)] == [str(number) for number in range(50)]
    assert len({answers[number]["stdout"].split()[1] for number in range(50)}) == 1


async def test_the_worker_ends_with_its_connection(place: Place) -> None:
    async with place.open() as box:
        worker = int((await box.bash("echo $PPID"))["stdout"])
        assert lives(worker)
    await until(lambda: not lives(worker), "the worker has ended")


async def test_a_file_name_that_is_no_text_does_not_break_the_connection(place: Place) -> None:
    async with place.open() as box:
        made = await box.bash(r"printf hi > $'\xff'; ln -s $'\xff' link", cwd=str(place.files))
        assert made["exit_code"] == 0
        answer = await box.call("remote_read", file_path=str(place.files / "link"))
    assert (answer["content"], answer["path"]) == ("hi", f"{place.files}/\ufffd")

"""Jobs work the same on a real SSH server, in the simulated container and on this machine."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from callers import caller

from tests.connect.places import Place, lives, until

pytestmark = pytest.mark.asyncio(loop_scope="function")


async def test_a_quick_command_is_answered_with_its_end(place: Place) -> None:
    async with caller(place.state_dir, place.kind) as mine:
        answer = await mine.bash("echo out; echo err >&2; exit 3")
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("out\n", "err\n", 3)
    assert (answer["status"], answer["outcome"], answer["job_id"]) == ("non_zero_exit", "success", None)


async def test_a_slow_command_becomes_a_job_and_its_cursors_continue_it(place: Place) -> None:
    async with caller(place.state_dir, place.kind) as mine:
        answer = await mine.bash("echo erste; sleep 0.6; echo zweite; exit 4", yield_time_ms=300)
        assert (answer["status"], answer["outcome"], answer["stdout"]) == ("running", "success", "erste\n")
        assert answer["job_id"] in answer["hint"]
        rest, _ = await mine.read_on(answer["job_id"], answer["stdout_cursor"])
        assert rest == "zweite\n"
        found = await mine.ended(answer["job_id"])
        assert (found["state"], found["exit_code"], found["summary"][-11:]) == ("exited", 4, "exit code 4")


async def test_a_job_outlives_the_orderly_end_of_its_caller(place: Place) -> None:
    async with caller(place.state_dir, place.kind) as first:
        job_id = await first.start("echo $$; while read line; do echo got $line; done; exit 5", stdin_open=True)
        _, offset = await first.read_on(job_id, until="\n")
    async with caller(place.state_dir, place.kind) as second:
        assert (await second.call("job_status", job_id=job_id))["state"] == "running"
        sent = await second.call("job_stdin", job_id=job_id, data="wörd\n", eof=True)
        assert (sent["written_bytes"], sent["remainder"], sent["closed"]) == (6, "", True)
        text, _ = await second.read_on(job_id, offset)
        assert text == "got wörd\n"
        assert (await second.ended(job_id))["exit_code"] == 5


async def test_stop_ends_everything_and_lists_show_it(place: Place) -> None:
    async with caller(place.state_dir, place.kind) as mine:
        job_id = await mine.start("sleep 300 & echo $!; setsid sleep 300 & echo $!; wait")
        text, _ = await mine.read_on(job_id, until="\n")
        listed = await mine.call("job_list", running_only=True)
        assert job_id in [job["job_id"] for job in listed["jobs"]]
        stopped = await mine.call("job_stop", job_id=job_id)
        assert (stopped["state"], stopped["state_before"], stopped["survivors"]) == ("exited", "running", [])
        assert stopped["drained"] >= 3
        assert not [int(line) for line in text.split() if lives(int(line))]
        listed = await mine.call("job_list", running_only=True)
        assert job_id not in [job["job_id"] for job in listed["jobs"]]
        assert (await mine.call("job_stop", job_id=job_id))["drained"] == 0


async def test_what_leaves_session_parent_and_environment_is_still_ended(place: Place, tmp_path: Path) -> None:
    if place.kind == "sim":
        pytest.skip("the simulated container takes only processes with its own variable for its own")
    noted = tmp_path / "pid"
    # The second setsid forks, because the first one leads its group: nothing but the pipe tells whose the child is.
    escape = f"env -i setsid setsid sh -c 'echo $$ > {noted}; exec sleep 300' & sleep 300"
    async with caller(place.state_dir, place.kind) as mine:
        job_id = await mine.start(escape)
        await until(lambda: noted.exists() and noted.read_text().strip() != "", "the escape has noted its pid")
        job = int(noted.read_text())
        await mine.call("job_stop", job_id=job_id)
        assert not lives(job)
        noted.unlink()
        answer = await mine.bash(escape, timeout_ms=1500)
        assert (answer["outcome"], answer["drained"]["survivors"]) == ("timeout", [])
        assert not lives(int(noted.read_text()))


async def test_a_terminal_is_offered(place: Place) -> None:
    async with caller(place.state_dir, place.kind) as mine:
        answer = await mine.bash("tty >/dev/null && stty size; printf '\\033[1mbold\\033[0m\\n'", tty=True)
        assert answer["stdout"] == "40 120\r\n\x1b[1mbold\x1b[0m\r\n"
        job_id = await mine.start("echo ready; cat", tty=True)
        await mine.read_on(job_id, until="ready")
        await mine.call("job_stdin", job_id=job_id, data="\x03")
        assert (await mine.ended(job_id))["signal"] == "SIGINT"


async def test_a_cancelled_call_leaves_neither_processes_nor_jobs(place: Place) -> None:
    note = place.files / "cancelled-job-pid"
    async with caller(place.state_dir, place.kind) as mine:
        before = (await mine.call("job_list"))["jobs"]
        async with anyio.create_task_group() as group:
            group.start_soon(mine.bash, f"echo $$ > {note}.new; mv {note}.new {note}; sleep 300")
            await until(note.exists, "the command has started")
            group.cancel_scope.cancel()
        assert not lives(int(note.read_text()))
        assert (await mine.call("job_list"))["jobs"] == before


async def test_what_was_cut_from_a_large_answer_can_be_read(place: Place) -> None:
    async with caller(place.state_dir, place.kind) as mine:
        answer = await mine.bash(
            "i=0; while [ $i -lt 3000 ]; do echo zeile-$i-ü; i=$((i+1)); done", max_output_bytes=999
        )
        whole = "".join(f"zeile-{n}-ü\n" for n in range(3000))
        head, note, tail = answer["stdout"].partition("\n[… ")
        missing, _, tail = tail.partition(" bytes left out …]\n")
        assert note
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert int(missing) == len(whole.encode()) - len(head.encode()) - len(tail.encode())
        assert (await mine.read_on(answer["job_id"], max_bytes=7000))[0] == whole


async def test_unknown_jobs_and_closed_inputs_are_explained(place: Place) -> None:
    async with caller(place.state_dir, place.kind) as mine:
        answer = await mine.call("job_status", job_id="job-20200101T000000-00000000")
        assert (answer["error"]["code"], answer["error"]["layer"]) == ("job_unknown", "caller")
        job_id = await mine.start("sleep 300")
        answer = await mine.call("job_stdin", job_id=job_id, data="x")
        assert answer["error"]["code"] == "stdin_closed"
        assert "stdin_open" in answer["error"]["hint"]
        await mine.call("job_stop", job_id=job_id)


async def test_secrets_in_a_command_line_are_masked(place: Place) -> None:
    async with caller(place.state_dir, place.kind) as mine:
        job_id = await mine.start("API_TOKEN=abcdef123 sleep 300")
        found = await mine.call("job_status", job_id=job_id)
        listed = await mine.call("job_list")
        await mine.call("job_stop", job_id=job_id)
    assert "abcdef123" not in str(found) + str(listed)
    assert found["command"] == "API_TOKEN=*** sleep 300"

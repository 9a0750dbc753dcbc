from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from worker_client import Client, Start, WorkerError

from vaws_mcp.worker.facts import procfs
from vaws_mcp.worker.supervisor.status import as_identity

STUBBORN = """
trap '' INT TERM
(trap '' INT TERM; exec sleep 100) &
(setsid bash -c "trap '' INT TERM; echo ready; sleep 100; sleep 100" &)
sleep 100
sleep 100
"""
FAST_STOP: dict[str, Any] = {"int_s": 0.1, "term_s": 0.1, "kill_s": 5}


def spec(execution_id: str = "e-1", command: str = "sleep 100", **more: Any) -> dict[str, Any]:
    return {"schema": 1, "execution_id": execution_id, "task_id": "t", "argv": ["bash", "-c", command], **more}


def submit(worker: Client, **fields: Any) -> dict[str, Any]:
    return worker.call("execution.submit", {"spec": spec(**fields)}).result


def status(worker: Client, execution_id: str = "e-1") -> dict[str, Any]:
    return worker.call("execution.status", {"execution_id": execution_id}).result


def wait(worker: Client, until: str, execution_id: str = "e-1") -> dict[str, Any]:
    params = {"execution_id": execution_id, "until": until, "timeout_s": 15}
    result = worker.call("execution.wait", params).result
    assert result["reached"], result
    return result


def tail(worker: Client, stream: str = "stdout", **params: Any) -> tuple[dict[str, Any], bytes]:
    answer = worker.call("execution.tail", {"execution_id": "e-1", "stream": stream, **params})
    return answer.result, answer.body


def wait_for_output(worker: Client, text: bytes) -> None:
    limit = time.monotonic() + 10
    while text not in tail(worker)[1]:
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_an_execution_that_ends_by_itself_succeeded(worker: Client, home: Path) -> None:
    answer = submit(
        worker, command="echo out; echo err >&2; echo $SPT_NOENV $VAWS_EXECUTION_ID $A", env={"A": "secret"}
    )
    assert answer["created"] is True
    found = wait(worker, "released")
    assert found["state"] == "exited"
    assert found["exit"] == {"reason": "succeeded", "code": 0, "signal": None}
    assert found["ended_at"] >= found["started_at"] >= found["submitted_at"]
    assert tail(worker)[1] == b"out\n1 e-1 secret\n"
    assert tail(worker, "stderr")[1] == b"err\n"
    folder = home / ".vaws" / "executions" / "e-1"
    receipt = json.loads((folder / "receipt.json").read_text())
    assert receipt["user_env"]["names"] == ["A"]
    assert "secret" not in (folder / "receipt.json").read_text() + (folder / "status.json").read_text()
    assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}


def test_a_receipt_masks_the_secrets_of_a_command(worker: Client, home: Path) -> None:
    submit(worker, argv=["echo", "--api-key", "s3cret", "--hf-token=s3cret", "TOKEN=s3cret", "--max-tokens", "8"])
    wait(worker, "released")
    assert tail(worker)[1].count(b"s3cret") == 3
    receipt = json.loads((home / ".vaws" / "executions" / "e-1" / "receipt.json").read_text())
    assert receipt["argv"] == ["echo", "--api-key", "***", "--hf-token=***", "TOKEN=***", "--max-tokens", "8"]


@pytest.mark.parametrize(
    ("command", "code", "signum"), [("exit 3", 3, None), ("kill -KILL $$", None, 9), ("exec /nowhere/x", 127, None)]
)
def test_a_failure_keeps_code_and_signal(worker: Client, command: str, code: int | None, signum: int | None) -> None:
    submit(worker, command=command)
    assert wait(worker, "released")["exit"] == {"reason": "failed", "code": code, "signal": signum}


@pytest.mark.parametrize(
    "change", [{"argv": ["/no/such/program"]}, {"cwd": "/no/such/dir"}, {"env_spec": {"venv": "/x"}}]
)
def test_what_cannot_start_is_failed_with_a_note(worker: Client, change: dict[str, Any]) -> None:
    worker.call("execution.submit", {"spec": {**spec(), **change}})
    found = wait(worker, "released")
    assert (found["state"], found["exit"]["reason"], found["root"]) == ("exited", "failed", None)
    assert "/" in found["note"]


def test_a_running_execution_shows_its_family(worker: Client) -> None:
    submit(worker, command="sleep 100 & wait", labels={"x": "y"})
    wait(worker, "running")
    found = status(worker)
    assert found["supervised"] is True
    assert {member["comm"] for member in found["family"]} >= {"sleep"}
    assert found["root"]["pid"] in {member["pid"] for member in found["family"]}
    assert found["supervisor"]["pid"] not in {member["pid"] for member in found["family"]}
    assert found["root"]["sid"] == found["root"]["pid"] != found["supervisor"]["pid"]
    stop(worker)


def stop(worker: Client, execution_id: str = "e-1", **params: Any) -> dict[str, Any]:
    return worker.call("execution.stop", {"execution_id": execution_id, "reason": "test", **params}).result


def test_stopping_an_obedient_command_is_quick_and_complete(worker: Client) -> None:
    submit(worker, command="exec sleep 100")
    wait(worker, "running")
    began = time.monotonic()
    found = stop(worker)
    assert time.monotonic() - began < 5.0
    assert (found["state"], found["resources_released"]) == ("exited", True)
    assert found["exit"] == {"reason": "cancelled", "code": None, "signal": signal.SIGINT}
    assert (found["stop_reason"], found["survivors"]) == ("test", [])
    assert stop(worker)["state"] == "exited"


def test_a_shell_and_its_command_are_interrupted_together(worker: Client) -> None:
    submit(worker, command="sleep 100; echo never")
    wait(worker, "running")
    began = time.monotonic()
    assert stop(worker)["exit"]["signal"] == signal.SIGINT
    assert time.monotonic() - began < 8.0


def test_a_stubborn_family_is_ended_to_the_last_member(worker: Client) -> None:
    submit(worker, command=STUBBORN)
    wait_for_output(worker, b"ready")
    members = [member["pid"] for member in status(worker)["family"]]
    assert len(members) >= 4
    found = stop(worker, **FAST_STOP)
    assert (found["exit"]["reason"], found["exit"]["signal"]) == ("cancelled", signal.SIGKILL)
    assert found["resources_released"] is True
    assert [pid for pid in members if procfs.read_process(pid) is not None] == []


def test_descendants_are_drained_before_an_execution_has_exited(worker: Client) -> None:
    command = "(setsid bash -c \"trap '' TERM; echo ready; sleep 100; sleep 100\" &); sleep 0.3"
    submit(worker, command=command, stop={"term_s": 0.5})
    wait_for_output(worker, b"ready")
    members = [member["pid"] for member in status(worker)["family"]]
    limit = time.monotonic() + 10
    while status(worker)["state"] == "running":
        assert time.monotonic() < limit
    assert status(worker)["state"] == "stopping"
    found = wait(worker, "released")
    assert found["exit"]["reason"] == "succeeded"
    assert [pid for pid in members if procfs.read_process(pid) is not None] == []


def test_a_stop_while_the_environment_is_sourced_starts_nothing(worker: Client, home: Path) -> None:
    (home / "slow.sh").write_text("sleep 100\n")
    env_spec = {"env_files": [str(home / "slow.sh")]}
    assert submit(worker, command="echo started > started", env_spec=env_spec)["state"] == "starting"
    found = stop(worker)
    assert (found["state"], found["exit"]["reason"], found["root"]) == ("exited", "cancelled", None)
    assert found["stop_reason"] == "test"
    assert not (home / "started").exists()


def test_the_time_limit_ends_an_execution(worker: Client) -> None:
    submit(worker, timeout_s=0.3, stop=FAST_STOP)
    found = wait(worker, "released")
    assert found["exit"]["reason"] == "timeout"


def test_the_same_spec_again_is_answered_and_another_is_refused(worker: Client, start: Start) -> None:
    command = "echo once >> count; sleep 100"
    assert submit(worker, command=command)["created"] is True
    assert submit(start(), command=command)["created"] is False
    with pytest.raises(WorkerError) as caught:
        submit(worker, command="other")
    assert (caught.value.code, caught.value.error["layer"]) == ("spec_conflict", "caller")
    stop(worker)
    assert submit(worker, command=command)["state"] == "exited"
    assert Path(worker.hello["home"], "count").read_text() == "once\n"


def test_many_submissions_at_once_start_one_command(worker: Client, home: Path) -> None:
    params = {"spec": spec(command="echo once >> count; sleep 100")}
    numbers = [worker.start("execution.submit", params) for _ in range(10)]
    answers = [worker.finish(number).result for number in numbers]
    assert sum(answer["created"] for answer in answers) == 1
    wait(worker, "running")
    limit = time.monotonic() + 10
    while not (home / "count").exists():
        assert time.monotonic() < limit
    assert (home / "count").read_text() == "once\n"
    stop(worker)


def test_an_execution_survives_its_worker(start: Start) -> None:
    first = start()
    submit(first)
    wait(first, "running")
    first.close_input()
    second = start()
    assert status(second)["state"] == "running"
    first_list = second.call("execution.list").result
    assert [entry["execution_id"] for entry in first_list["executions"]] == ["e-1"]
    assert stop(second)["resources_released"] is True


def test_a_dead_supervisor_with_a_living_family_is_ended_by_stop(worker: Client) -> None:
    submit(worker, command=STUBBORN)
    wait_for_output(worker, b"ready")
    before = status(worker)
    os.kill(before["supervisor"]["pid"], signal.SIGKILL)
    wait_for_end(before["supervisor"])
    found = status(worker)
    assert (found["state"], found["supervised"], found["resources_released"]) == ("running", False, False)
    assert {member["pid"] for member in found["family"]} == {member["pid"] for member in before["family"]}
    ended = stop(worker, **FAST_STOP)
    assert (ended["state"], ended["exit"]["reason"], ended["resources_released"]) == ("exited", "cancelled", True)
    assert [m["pid"] for m in before["family"] if is_living(m)] == []
    assert status(worker)["state"] == "exited"


def is_living(member: dict[str, Any]) -> bool:
    identity = as_identity(member)
    assert identity is not None
    return procfs.is_alive(identity)


def wait_for_end(member: dict[str, Any]) -> None:
    limit = time.monotonic() + 10
    while is_living(member):
        assert time.monotonic() < limit
        time.sleep(0.005)


def test_an_execution_of_which_nothing_is_left_is_lost(worker: Client) -> None:
    submit(worker, command="exec sleep 100")
    found = wait(worker, "running")
    os.kill(found["supervisor"]["pid"], signal.SIGKILL)
    os.kill(found["root"]["pid"], signal.SIGKILL)
    wait_for_end(found["supervisor"])
    wait_for_end(found["root"])
    lost = status(worker)
    assert (lost["state"], lost["resources_released"], lost["exit"]) == ("lost", False, None)
    assert stop(worker)["resources_released"] is True


def test_a_restart_of_the_machine_ends_everything(start: Start) -> None:
    before = start(VAWS_SIM="1", VAWS_SIM_BOOT_ID="one", VAWS_SIM_MARKER="m")
    submit(before)
    after = start(VAWS_SIM="1", VAWS_SIM_BOOT_ID="two", VAWS_SIM_MARKER="m")
    found = status(after)
    assert (found["state"], found["resources_released"]) == ("lost", True)
    assert "restarted" in found["note"]
    assert stop(before)["state"] == "exited"


def test_the_ports_of_a_stopped_execution_are_closed(worker: Client) -> None:
    port = worker.call("free_port").result["port"]
    program = (
        f"import socket,time; s=socket.create_server(('127.0.0.1',{port})); print('up',flush=True); time.sleep(100)"
    )
    argv = ["python3", "-c", program]
    worker.call("execution.submit", {"spec": {**spec(), "argv": argv, "ports": [port]}})
    wait_for_output(worker, b"up")
    facts = worker.call("ports", {"ports": [port]}).result["ports"][str(port)]
    assert facts["sids"] == [status(worker)["root"]["sid"]]
    assert stop(worker)["resources_released"] is True
    assert worker.call("ports", {"ports": [port]}).result["ports"][str(port)]["listening"] is False


def test_pages_of_a_log_follow_on_and_cut_no_character(worker: Client) -> None:
    submit(worker, command="for i in $(seq 40); do printf 'é%s€' $i; done")
    wait(worker, "released")
    text, offset = b"", 0
    while True:
        page, body = tail(worker, offset=offset, max_bytes=7)
        assert page["offset"] == offset
        body.decode()
        text, offset = text + body, page["next_offset"]
        if page["eof"]:
            break
    assert text.decode() == "".join(f"é{i}€" for i in range(1, 41))
    page, body = tail(worker, max_bytes=8)
    assert text.endswith(body)
    body.decode()
    assert page["next_offset"] == page["size"] == len(text)


def test_half_a_character_waits_for_its_rest(worker: Client) -> None:
    submit(worker, command=r"printf 'a\303'; sleep 100")
    wait_for_output(worker, b"a")
    page, body = tail(worker, offset=0)
    assert (body, page["next_offset"], page["eof"]) == (b"a", 1, False)
    page, body = tail(worker, offset=1)
    assert (body, page["next_offset"], page["eof"]) == (b"", 1, False)
    stop(worker)
    page, body = tail(worker, offset=1)
    assert (body, page["eof"]) == (b"\xc3", True)


@pytest.mark.parametrize(
    "change",
    [
        {"argv": []},
        {"execution_id": "../x"},
        {"devices": "all"},
        {"stop": {"int_s": -1}},
        {"schema": 99},
        {"ports": ["8000"]},
    ],
)
def test_an_impossible_spec_creates_nothing(worker: Client, home: Path, change: dict[str, Any]) -> None:
    with pytest.raises(WorkerError) as caught:
        worker.call("execution.submit", {"spec": {**spec(), **change}})
    assert caught.value.code == "bad_params"
    assert not (home / ".vaws").exists()


@pytest.mark.parametrize("name", ["VAWS_EXECUTION_ID", "VAWS_SIM_MARKER"])
def test_a_variable_that_only_we_set_is_refused(worker: Client, home: Path, name: str) -> None:
    with pytest.raises(WorkerError) as caught:
        worker.call("execution.submit", {"spec": spec(env={name: "x"})})
    assert caught.value.code == "reserved_env"
    assert not (home / ".vaws").exists()


def test_unknown_and_torn_executions_are_named(worker: Client, home: Path) -> None:
    with pytest.raises(WorkerError, match="not_found"):
        status(worker, "e-none")
    torn = home / ".vaws" / "executions" / "e-torn"
    torn.mkdir(parents=True)
    (torn / "status.json").write_text('{"state": "run')
    with pytest.raises(WorkerError, match="torn_record"):
        status(worker, "e-torn")
    assert worker.call("execution.list").result["unreadable"] == ["e-torn"]
    assert (torn / "status.json").read_text() == '{"state": "run'

"""Managed executions from outside: started, lost sight of, found again, waited for and ended whole."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flow_server import RawServer, raw_server
from flow_world import COMMAND, Cli, Json, Spoken, Task, World, surroundings, until

LISTEN = "import socket, time; s = socket.create_server(('127.0.0.1', {})); print('up', flush=True); time.sleep(300)"
SHOW = ("sh", "-c", "echo $ASCEND_RT_VISIBLE_DEVICES")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass(frozen=True)
class Tools:
    """A server of the task's own."""

    server: RawServer
    context_file: str

    def __call__(self, tool: str, **arguments: Any) -> Json:
        return self.server.call(tool, {"context_file": self.context_file, **arguments})

    def run(self, *command: str, **arguments: Any) -> Json:
        return self("vaws_run", command=list(command), **arguments)

    def ask(self, action: str = "status", **arguments: Any) -> Json:
        return self("vaws_execution", action=action, **arguments)


@pytest.fixture
def tools(world: World, task: Task) -> Iterator[Tools]:
    with raw_server(world.state_dir) as server:
        yield Tools(server, task.context_file)


@pytest.fixture
def managed(cli: Cli, task: Task) -> Callable[..., Spoken]:
    """Call a command of the task."""

    def call(*words: str) -> Spoken:
        return cli(words[0], "--context-file", task.context_file, *words[1:])

    return call


def remote_folder(world: World, execution_id: str) -> Path:
    return Path(world.facts["root"]) / "root" / ".vaws" / "executions" / execution_id


def remote_status(world: World, execution_id: str) -> Json:
    return json.loads((remote_folder(world, execution_id) / "status.json").read_text("utf-8"))


def kill(pid: int, marker: str) -> None:
    """SIGKILL a process, after checking that it belongs to the execution."""
    process = Path(f"/proc/{pid}")
    assert marker.encode() in (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
    os.kill(pid, signal.SIGKILL)


def test_a_command_runs_to_its_end_and_its_output_can_be_paged(managed: Callable[..., Spoken]) -> None:
    script = "printf 'one\\ntwo\\n'; echo bad >&2; exit 3"
    ran = managed("vaws-run", "--wait-until", "released", "--env", "A=1", "--", "sh", "-c", script)

    assert ran.code == 0
    answer = ran.answer
    assert (answer["status"], answer["state"], answer["exit_code"]) == ("non_zero_exit", "exited", 3)
    assert (answer["stdout_tail"], answer["stderr_tail"]) == ("one\ntwo\n", "bad\n")
    assert answer["resources_released"] is True
    assert answer["receipt"]["user_env"]["names"] == ["A"]
    assert len(answer["receipt"]["endpoint"]["repos"]["vllm_ascend"]["commit"]) == 40
    first = managed("vaws-execution", answer["execution_id"], "--action", "tail", "--offset", "0", "--max-bytes", "4")
    rest = managed(
        "vaws-execution", answer["execution_id"], "--action", "tail", "--offset", str(first.answer["next_offset"])
    )
    assert (first.answer["content"], first.answer["eof"]) == ("one\n", False)
    assert (rest.answer["content"], rest.answer["eof"]) == ("two\n", True)


def test_a_command_that_cannot_start_says_why(managed: Callable[..., Spoken]) -> None:
    ran = managed("vaws-run", "--", "no-such-command")
    assert ran.code == 1
    assert "no-such-command" in ran.answer["error"]["message"]
    assert ran.answer["resources_released"] is True
    listed = managed("vaws-execution").answer["executions"]
    assert [(row["state"], row["exit_reason"]) for row in listed] == [("exited", "failed")]


def test_a_failed_preflight_submits_nothing_and_shows_its_output(managed: Callable[..., Spoken]) -> None:
    ran = managed("vaws-run", "--env", "WHY=disk full", "--preflight", 'sh -c "echo $WHY >&2; exit 7"', "--", "true")
    assert ran.code == 1
    assert ran.answer["error"]["code"] == "preflight_failed"
    assert ran.answer["preflight"]["stderr"] == "disk full\n"
    assert managed("vaws-execution").answer["executions"] == []


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("--env", "VAWS_EXECUTION_ID=x", "--", "true"), 2, "reserved_env"),
        (("--env", "ASCEND_RT_VISIBLE_DEVICES=0", "--devices", "1", "--", "true"), 2, "devices_conflict"),
        (("--npu-count", "1", "--devices", "1", "--", "true"), 2, "devices_conflict"),
        (("--restart", "--", "true"), 2, "restart_unnamed"),
        ((), 2, "argument_invalid"),
        (("--", "true"), 3, "task_missing"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_contacted(
    cli: Cli, words: tuple[str, ...], code: int, why: str
) -> None:
    ran = cli("vaws-run", "--endpoint", "nobody@127.0.0.1:1", *words)
    assert (ran.code, ran.answer["error"]["code"]) == (code, why)


def test_a_service_outlives_its_server_and_the_same_request_finds_it_again(world: World, tools: Tools) -> None:
    port = free_port()
    request: Json = {
        "context_file": tools.context_file,
        "command": ["python3", "-c", LISTEN.format(port)],
        "ports": [port],
        "service": "web",
        "wait_until": "ready",
    }
    with raw_server(world.state_dir) as server:
        first = server.call("vaws_run", request)
        server.process.kill()
        server.process.wait(10)
    assert (first["status"], first["reconnected"], first["ports"]) == ("running", False, [port])

    again = tools("vaws_run", **request)
    different = tools("vaws_run", **request, env={"A": "1"})
    assert (again["execution_id"], again["reconnected"]) == (first["execution_id"], True)
    assert (different["error"]["code"], different["differs"]) == ("service_differs", ["env"])
    assert tools.ask("tail", service="web")["content"] == "up\n"
    for _twice in range(2):
        stopped = tools.ask("stop", service="web")
        assert (stopped["outcome"], stopped["state"], stopped["resources_released"]) == ("success", "exited", True)
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_service_is_replaced_on_demand_and_only_then(world: World, tools: Tools) -> None:
    first = tools.run("sleep", "300", service="s")
    refused = tools.run("sleep", "301", service="s", restart=True, preflight=["false"])
    assert refused["error"]["code"] == "preflight_failed"
    assert "sleep 300" in world.processes().values()
    second = tools.run("sleep", "301", service="s", restart=True)
    assert second["execution_id"] != first["execution_id"]
    assert "sleep 300" not in world.processes().values()
    ended = tools.ask(execution_id=first["execution_id"])
    assert (ended["state"], ended["stop_reason"]) == ("exited", "restart")


def test_calls_at_the_same_time_start_one_service(world: World, task: Task) -> None:
    words = [*COMMAND, "vaws-run", "--context-file", task.context_file, "--service", "s", "--", "sleep", "300"]
    env = surroundings(world.state_dir)
    calls = [
        subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(3)
    ]
    answers = [json.loads(call.communicate(timeout=60)[0]) for call in calls]
    assert [answer["outcome"] for answer in answers] == ["success"] * 3
    assert len({answer["execution_id"] for answer in answers}) == 1
    assert [answer["reconnected"] for answer in answers].count(False) == 1
    assert list(world.processes().values()).count("sleep 300") == 1


def test_a_killed_command_line_leaves_the_execution_that_it_waits_for(world: World, tools: Tools) -> None:
    words = ["vaws-run", "--context-file", tools.context_file, "--wait-until", "exited", "--", "sleep", "300"]
    with subprocess.Popen(
        [*COMMAND, *words], env=surroundings(world.state_dir), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as command:
        until(lambda: "sleep 300" in world.processes().values(), 20, "the command runs")
        command.kill()
    (row,) = tools.ask()["executions"]
    assert row["state"] == "running"
    assert tools.ask("stop", execution_id=row["execution_id"])["resources_released"] is True


def test_a_wait_goes_on_over_a_new_connection_when_its_worker_is_killed(world: World, tools: Tools) -> None:
    tools("remote_bash", command="true")
    workers = {pid: line for pid, line in world.processes().items() if "worker" in line}
    assert workers
    started = tools.run("sh", "-c", "sleep 3; echo done")
    waiting = tools.server.start(
        "vaws_execution",
        {"context_file": tools.context_file, "execution_id": started["execution_id"], "action": "wait"},
    )
    for pid in workers:
        kill(pid, world.facts["marker"])
    ended = json.loads(tools.server.answer(waiting)["content"][0]["text"])
    assert (ended["status"], ended["exit_code"], ended["stdout_tail"]) == ("exited", 0, "done\n")


def test_a_killed_supervisor_is_seen_and_what_it_left_is_ended(world: World, tools: Tools) -> None:
    first = tools.run("sleep", "300", service="s")
    kill(remote_status(world, first["execution_id"])["supervisor"]["pid"], first["execution_id"])
    seen = until(lambda: (found := tools.ask(service="s"))["note"] and found, 10, "its loss is seen")
    assert "supervisor is gone" in seen["note"]
    assert [process["title"] for process in seen["processes"]] == ["sleep 300"]
    assert tools.run("sleep", "300", service="s")["error"]["code"] == "service_unsupervised"
    assert any("the hold on its devices and ports" in warning for warning in seen["warnings"])
    assert tools.run("true", ports=[7001, 7001])["error"]["code"] == "port_malformed"
    stopped = tools.ask("stop", service="s")
    assert (stopped["state"], stopped["resources_released"]) == ("exited", True)
    assert "sleep 300" not in world.processes().values()
    assert not tools.run("sleep", "300", service="s")["reconnected"]


def test_a_killed_command_is_told_from_one_that_ended(world: World, tools: Tools) -> None:
    first = tools.run("sleep", "300")
    kill(remote_status(world, first["execution_id"])["root"]["pid"], first["execution_id"])
    ended = tools.ask("wait", execution_id=first["execution_id"], until="released")
    assert (ended["status"], ended["signal"], ended["exit_code"]) == ("signalled", signal.SIGKILL, None)
    assert "SIGKILL" in ended["summary"]


def test_records_deleted_on_the_endpoint_are_never_taken_for_a_clean_end(world: World, tools: Tools) -> None:
    first = tools.run("sleep", "300")
    folder = remote_folder(world, first["execution_id"])
    folder.rename(folder.with_name("aside"))
    seen = tools.ask(execution_id=first["execution_id"])
    stopped = tools.ask("stop", execution_id=first["execution_id"])
    left = "sleep 300" in world.processes().values()
    if not folder.exists():
        folder.with_name("aside").rename(folder)

    assert seen["state"] in ("running", "lost")
    assert seen["resources_released"] is False
    assert (stopped["status"] == "cleanup_failed") if left else (stopped["resources_released"] is True)
    again = tools.ask("stop", execution_id=first["execution_id"])
    assert again["resources_released"] is True


def test_another_task_can_look_and_not_touch(world: World, tools: Tools) -> None:
    mine = tools.run("sleep", "300", service="s")
    other = world.new_task("other")
    looked = world.cli("vaws-execution", mine["execution_id"], "--context-file", other.context_file)
    words = ("vaws-execution", mine["execution_id"], "--action", "stop")
    stopped = world.cli(*words, "--context-file", other.context_file)
    nobody = world.cli(*words)
    finished = world.cli("task-finish", "--context-file", other.context_file)

    assert (looked.code, looked.answer["state"]) == (0, "running")
    assert (stopped.code, stopped.answer["error"]["code"]) == (2, "execution_foreign")
    assert (nobody.code, nobody.answer["error"]["code"]) == (3, "task_missing")
    assert (finished.code, finished.answer["stopped"]) == (0, [])
    assert "sleep 300" in world.processes().values()


def test_an_endpoint_that_may_only_be_read_is_still_shown(world: World, tools: Tools) -> None:
    mine = tools.run("sleep", "300")
    words = ("vaws-execution", mine["execution_id"], "--context-file", tools.context_file)
    looked = world.cli(*words, VAWS_READ_ONLY="1")
    refused = world.cli(*words, "--action", "stop", VAWS_READ_ONLY="1")
    assert (looked.code, looked.answer["state"]) == (0, "running")
    assert (refused.code, refused.answer["error"]["code"]) == (3, "read_only")
    audited = (world.state_dir / "audit.jsonl").read_text("utf-8").splitlines()
    stops = [line for line in audited if '"vaws_execution"' in line and mine["execution_id"] in line]
    assert len(stops) == 1  # looking is not noted


def test_a_wait_answers_in_time_and_goes_on(tools: Tools) -> None:
    started = tools.run("sh", "-c", "sleep 1.5; echo done")
    waited = tools.ask("wait", execution_id=started["execution_id"], until="exited", wait_s=0.1)
    ended = tools.ask("wait", execution_id=started["execution_id"], until="exited")
    assert (waited["outcome"], waited["state"]) == ("success", "running")
    assert started["execution_id"] in waited["hint"]
    assert "action=wait" in waited["hint"]
    assert (ended["status"], ended["stdout_tail"]) == ("exited", "done\n")


def test_a_granted_device_is_the_commands_and_the_next_in_line_is_told_whose(tools: Tools) -> None:
    second: Json = {
        "command": ["sh", "-c", f"{SHOW[2]}; sleep 300"],
        "service": "two",
        "env": {"ASCEND_RT_VISIBLE_DEVICES": "3"},
    }
    first = tools.run("sleep", "300", service="one", devices=["3"])
    assert [device["logic"] for device in first["devices"]] == [3]
    assert first["lease_scope"] in ("host", "container")
    assert (first["lease_scope"] == "container") == any("within this container" in text for text in first["warnings"])
    queued = tools("vaws_run", **second)
    assert (queued["status"], queued["outcome"]) == ("queued", "success")
    assert queued["queue"]["since"] is not None
    assert queued["queue"]["waiting_for"][0]["holder"]["execution_id"] == first["execution_id"]
    assert first["execution_id"] in queued["summary"]
    assert "vaws_execution" in queued["hint"]

    again = tools("vaws_run", **second)
    assert (again["execution_id"], again["reconnected"]) == (queued["execution_id"], True)
    waiting = tools.ask("wait", service="two", until="running", wait_s=0.2)
    assert (waiting["outcome"], waiting["state"]) == ("success", "queued")
    assert tools.ask("stop", service="one")["resources_released"] is True
    assert tools.ask("wait", service="two", until="running")["state"] == "running"
    shown = until(lambda: tools.ask("tail", service="two")["content"], 10, "its output")
    assert shown == "3\n"


def test_progress_says_behind_whom_and_a_place_in_the_queue_can_be_given_up(world: World, tools: Tools) -> None:
    first = tools.run("sleep", "300", devices=["3"])
    queued = tools.run("sleep", "301", devices=["3"], service="s")
    assert queued["state"] == "queued"
    words = ("--action", "wait", "--until", "running", "--wait-s", "0.1", "--context-file", tools.context_file)
    waited = world.cli("vaws-execution", "--service", "s", *words)
    assert waited.code == 0
    assert any(first["execution_id"] in event["message"] for event in waited.progress)
    stopped = tools.ask("stop", service="s")
    assert (stopped["state"], stopped["exit_reason"], stopped["resources_released"]) == ("exited", "cancelled", True)


def test_task_finish_ends_what_runs_waits_and_holds(world: World, tools: Tools) -> None:
    held = tools("npu_hold", duration="5m", devices=["4"])
    run = tools.run("sleep", "300", reservation=held["execution_id"])
    queued = tools.run("sleep", "301", devices=["4"])
    assert (held["state"], run["state"], queued["state"]) == ("running", "running", "queued")
    finished = tools("task_finish")
    assert finished["outcome"] == "success"
    assert set(finished["stopped"]) == {one["execution_id"] for one in (held, run, queued)}
    assert finished["stopped"][-1] == held["execution_id"]
    assert not [line for line in world.processes().values() if line.startswith("sleep")]


def test_a_hold_lends_its_devices_until_it_is_released(tools: Tools) -> None:
    held = tools("npu_hold", duration="5m", npu_count=2)
    logics = [str(device["logic"]) for device in held["devices"]]
    assert len(logics) == 2
    lent: Json = {"reservation": held["execution_id"], "wait_until": "exited"}
    assert tools.run(*SHOW, **lent)["stdout_tail"] == ",".join(logics) + "\n"
    assert tools.run(*SHOW, **lent, devices=[logics[1]])["stdout_tail"] == logics[1] + "\n"
    run = tools.run("sleep", "300")
    assert tools("npu_hold", release=run["execution_id"])["error"]["code"] == "not_a_hold"
    assert tools("npu_hold", release=held["execution_id"])["resources_released"] is True
    assert tools.run(*SHOW, **lent)["error"]["code"] == "reservation_gone"


def test_a_hold_ends_by_its_time(cli: Cli, tools: Tools) -> None:
    begun = cli("npu-hold", "--for", "1s", "--devices", "5", "--context-file", tools.context_file)
    assert begun.code == 0
    over = tools.ask("wait", execution_id=begun.answer["execution_id"], until="released")
    assert (over["state"], over["exit_reason"], over["resources_released"]) == ("exited", "succeeded", True)
    assert tools("npu_hold", duration="30", devices=["5"])["error"]["code"] == "duration_malformed"


def test_an_unknown_device_is_named(tools: Tools) -> None:
    error = tools.run("true", devices=["99"])["error"]
    assert (error["code"], error["layer"]) == ("device_unknown", "device")
    assert "99" in error["message"]


@pytest.fixture
def broken_probe(world: World) -> Iterator[None]:
    """npu-smi of the container fails."""
    program = Path(world.facts["root"]) / "bin" / "npu-smi"
    aside = program.with_name("npu-smi.aside")
    program.rename(aside)
    program.write_text("#!/bin/sh\necho 'DrvMngGetConsoleLogLevel failed' >&2\nexit 1\n", "utf-8")
    program.chmod(0o755)
    yield
    program.unlink()
    aside.rename(program)


@pytest.mark.usefixtures("broken_probe")
def test_without_a_probe_nothing_is_granted_unless_one_assumes_it(tools: Tools) -> None:
    ran = tools.run("sleep", "300", service="s", devices=["6"])
    blocked = until(lambda: (seen := tools.ask(service="s"))["blocked"] and seen, 20, "the reason is shown")
    assert ran["state"] == blocked["state"] == "queued"
    assert blocked["status"] == "blocked"
    assert blocked["blocked"]["message"] in blocked["summary"]
    assert tools.ask("stop", service="s")["resources_released"] is True
    assumed = tools.run("true", devices=["6"], assume_free=True, wait_until="exited")
    assert (assumed["outcome"], assumed["assumed_free"]) == ("success", True)
    assert any("assume_free" in warning for warning in assumed["warnings"])

"""What dies, and what goes on: a killed server, a killed run, SIGTERM, a closed input."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest
from flow_server import RawServer, raw_server
from flow_world import Task, World, signal_run, until

STATES = ("first=main", "second=slow-decode")


@pytest.fixture
def server(world: World) -> Iterator[RawServer]:
    with raw_server(world.state_dir) as server:
        yield server


def is_free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_a_comparison_survives_its_server_and_any_process_gets_the_result(
    world: World, task: Task, server: RawServer
) -> None:
    server.start("bench_compare", world.arguments(task, *STATES))
    run_id = task.wait_for("ready", "first")
    server.process.send_signal(signal.SIGKILL)
    assert server.process.wait(5) == -signal.SIGKILL

    with raw_server(world.state_dir) as other:
        waited = other.call("run_wait", {"run_id": run_id})
    again = world.cli("run-wait", run_id)

    assert (waited["status"], waited["outcome"], waited["state"]) == ("ok", "success", "finished")
    assert waited["simulated"] is True
    assert [row["state"] for row in waited["result"]["comparison"]] == ["first", "second"]
    assert again.code == 0
    assert again.answer["result"] == waited["result"]
    world.assert_clean()


def test_a_killed_run_keeps_what_it_finished_and_task_finish_cleans_up(
    world: World, task: Task, server: RawServer
) -> None:
    server.start("bench_compare", world.arguments(task, "first=main", "second=endless"))
    run_id = task.wait_for("ready", "second")
    (run,) = task.runs
    signal_run(run, signal.SIGKILL)
    status = until(lambda: world.cli("run-status", run_id).answer, 5, "an answer")

    assert (status["status"], status["state"]) == ("interrupted", "interrupted")
    assert "task_finish" in status["hint"]
    kept = json.loads((run / "states" / "first.json").read_text("utf-8"))
    assert kept["status"] == "ok"
    assert kept["aggregated"]["mean_tpot_ms"]["mean"] > 0
    assert not (run / "states" / "second.json").exists()
    assert world.vllm() != {}

    waited = world.cli("run-wait", run_id)
    assert (waited.code, waited.answer["outcome"]) == (1, "failed")
    records = [json.loads(path.read_text("utf-8")) for path in task.directory.glob("executions/*/record.json")]
    finished = world.cli("task-finish", "--context-file", task.context_file)

    assert finished.code == 0
    assert len(finished.answer["stopped"]) == 2  # the service and the reservation that it was in
    assert world.vllm() == {}
    ports = [port for record in records for port in record["ports"]]
    assert len(ports) == 2
    assert all(map(is_free, ports))
    assert world.git("symbolic-ref", "--short", "HEAD") == "main"
    assert any("put back to main" in warning for warning in finished.answer["warnings"])


def test_task_finish_leaves_a_tree_alone_that_somebody_else_has_moved(
    world: World, task: Task, server: RawServer
) -> None:
    server.start("bench_compare", world.arguments(task, "first=main", "second=endless"))
    task.wait_for("ready", "second")
    (run,) = task.runs
    signal_run(run, signal.SIGKILL)
    world.git("checkout", "--quiet", "--detach", "main~1")
    finished = world.cli("task-finish", "--context-file", task.context_file)

    assert finished.code == 0
    assert world.git("rev-parse", "HEAD") == world.git("rev-parse", "main~1")
    assert any("left alone" in warning for warning in finished.answer["warnings"])
    world.git("checkout", "--quiet", "main")


def test_sigterm_ends_the_server_at_once_and_the_comparison_goes_on(
    world: World, task: Task, server: RawServer
) -> None:
    assert server.call("remote_bash", {"endpoint": "sim", "command": "true"})["outcome"] == "success"
    worker = set(world.processes())
    assert worker
    server.start("bench_compare", world.arguments(task, *STATES))
    run_id = task.wait_for("ready", "first")
    began = time.monotonic()
    server.process.terminate()

    assert server.process.wait(10) == 0
    assert time.monotonic() - began < 2
    until(lambda: not worker & set(world.processes()), 3, "the server's worker on the endpoint is gone")
    assert world.cli("run-status", run_id).answer["state"] == "running"
    waited = world.cli("run-wait", run_id)
    assert (waited.code, waited.answer["status"]) == (0, "ok")
    world.assert_clean()


def test_sigterm_ends_a_server_that_waits_for_its_client(server: RawServer) -> None:
    assert server.call("task_list", {})["outcome"] == "success"
    began = time.monotonic()
    server.process.terminate()
    assert server.process.wait(10) == 0
    assert time.monotonic() - began < 2


def test_sigterm_ends_the_remote_command_of_a_call(world: World, server: RawServer) -> None:
    server.start("remote_bash", {"endpoint": "sim", "command": "sleep 77; true"})
    until(lambda: "sleep 77" in world.processes().values(), 10, "the remote command runs")
    server.process.terminate()
    assert server.process.wait(2) == 0
    world.assert_clean()


def test_a_closed_input_ends_the_wait_and_not_the_work(world: World, task: Task, server: RawServer) -> None:
    server.start("bench_compare", world.arguments(task, "first=main", "second=endless"))
    run_id = task.wait_for("ready", "first")
    server.close_input()
    assert server.process.wait(10) == 0

    assert world.cli("run-status", run_id).answer["status"] == "running"
    cancelled = world.cli("run-cancel", run_id)
    assert (cancelled.code, cancelled.answer["status"]) == (0, "cancelled")
    world.assert_clean()


def test_ctrl_c_on_the_command_line_leaves_the_run_and_says_so(world: World, task: Task) -> None:
    with world.compare_later(task, "first=main", "second=endless") as command:
        run_id = task.wait_for("ready", "second")
        os.kill(command.pid, signal.SIGINT)
        stdout, _stderr = command.communicate(timeout=10)

    assert command.returncode == 130
    answer = json.loads(stdout)
    assert answer["outcome"] == "cancelled"
    assert "run-cancel" in answer["error"]["hint"]
    assert world.cli("run-status", run_id).answer["state"] == "running"
    assert world.cli("run-cancel", run_id).answer["status"] == "cancelled"


@pytest.mark.parametrize("moment", range(4))
def test_a_run_that_is_ended_while_it_submits_its_service_still_stops_it(
    world: World, task: Task, server: RawServer, moment: int
) -> None:
    call = server.start("bench_compare", world.arguments(task, "first=endless", "second=main"))
    until(lambda: task.executions, 20, "the execution is recorded", pause=0.0005)
    time.sleep(moment * 0.004)
    signal_run(task.runs[0], signal.SIGTERM)

    answer = json.loads(server.answer(call)["content"][0]["text"])
    assert (answer["status"], answer["outcome"]) == ("cancelled", "cancelled")
    server.process.terminate()
    world.assert_clean()


@pytest.fixture
def slow_checkout(world: World) -> Iterator[None]:
    """Git needs a second for each file that it writes."""
    attributes = world.repo / ".git" / "info" / "attributes"
    world.git("config", "filter.slow.smudge", "sleep 1; cat")
    attributes.write_text("* filter=slow\n", "utf-8")
    yield
    attributes.unlink()
    world.git("config", "--remove-section", "filter.slow")


@pytest.mark.usefixtures("slow_checkout")
def test_a_run_that_is_ended_while_it_checks_out_leaves_no_changed_file(
    world: World, task: Task, server: RawServer
) -> None:
    call = server.start("bench_compare", world.arguments(task, "first=endless", "second=main"))
    until(lambda: "sleep 1" in world.processes().values(), 20, "git writes a file")
    signal_run(task.runs[0], signal.SIGTERM)

    answer = json.loads(server.answer(call)["content"][0]["text"])
    assert answer["status"] == "cancelled"
    server.process.terminate()
    world.assert_clean()

"""A service from its start to its end: found again, replaced, explained when it fails, and stopped whole."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from flow_server import RawServer, raw_server
from flow_world import COMMAND, Cli, Json, Task, World, surroundings, until
from mcp import Client

PHASES = ["weights", "compile", "graph_capture", "engine", "http", "models", "first_token"]
NEVER_READY = {"VAWS_SIM_FAULT": "never_ready"}


@dataclass(frozen=True)
class Services:
    """The services of one story."""

    server: RawServer
    world: World
    task: Task

    def start(self, **arguments: Any) -> Json:
        """Call serve_start; without `devices` for a service on CPU."""
        fixed = {"model": self.world.facts["model"], "devices": ["none"]}
        return self._call("serve_start", {**fixed, **arguments})

    def ready(self, *, reconnected: bool = False, **arguments: Any) -> Json:
        """Call serve_start and check that the service is ready."""
        answer = self.start(**arguments)
        assert (answer["status"], answer["outcome"]) == ("ready", "success"), answer
        assert answer["reconnected"] is reconnected
        return answer

    def status(self, **arguments: Any) -> Json:
        return self._call("serve_status", arguments)

    def logs(self, **arguments: Any) -> Json:
        return self._call("serve_logs", arguments)

    def stop(self, **arguments: Any) -> Json:
        return self._call("serve_stop", arguments)

    def explain(self, **arguments: Any) -> Json:
        return self._call("explain_failure", arguments)

    def _call(self, tool: str, arguments: Json) -> Json:
        return self.server.call(tool, {"context_file": self.task.context_file, **arguments})


@pytest.fixture
def services(world: World, task: Task) -> Iterator[Services]:
    """The services of a story, through one MCP server: a process for each call would take longer than the services."""
    with raw_server(world.state_dir) as server:
        yield Services(server, world, task)


def test_a_service_is_started_found_again_read_and_stopped(world: World, services: Services) -> None:
    answer = services.ready(serve_args=["--max-model-len", "1024"])
    assert list(answer["phases"]) == PHASES
    assert list(answer["phases"].values()) == sorted(answer["phases"].values())
    assert answer["took"]["weights"] >= 0
    assert answer["host"] == "127.0.0.1"

    again = services.ready(serve_args=["--max-model-len", "1024"], reconnected=True)
    assert (again["execution_id"], again["port"]) == (answer["execution_id"], answer["port"])

    seen = services.status()
    assert (seen["state"], seen["health"], seen["models"]) == ("ready", 200, [answer["served_model_name"]])
    assert seen["first_token_s"] > 0
    assert seen["engine_processes"] == 2
    assert seen["phases"] == answer["phases"]

    first = services.logs(max_bytes=200)
    rest = services.logs(cursor=first["cursor"])
    assert first["stdout"]
    assert (rest["stdout"], rest["stderr"]) == ("", "")
    whole = services.logs(cursor="0.0", max_bytes=1_000_000)
    assert "non-default args" in whole["stdout"]
    assert "Application startup complete." in whole["stderr"]
    assert (whole["eof"], whole["more"]) == (False, False)

    stopped = services.stop()
    assert (stopped["state"], stopped["resources_released"], stopped["was_running"]) == ("exited", True, True)
    assert world.vllm() == {}
    assert services.stop()["was_running"] is False
    ended = services.status()
    assert (ended["state"], ended["exit"]["reason"], ended["diagnosis"]) == ("exited", "cancelled", None)
    assert services.logs()["eof"] is True


def test_other_arguments_are_refused_with_what_differs_and_restart_replaces(services: Services) -> None:
    first = services.ready()
    refused = services.start(served_model_name="other", serve_args=["--max-model-len", "512"])
    assert (refused["outcome"], refused["error"]["code"]) == ("blocked", "service_differs")
    assert refused["differs"] == ["served_model_name", "serve_args"]
    assert "restart" in refused["error"]["hint"]

    assert services.start(model="/models/absent", restart=True)["error"]["code"] == "model_missing"
    assert services.status()["execution_id"] == first["execution_id"]

    second = services.ready(port=first["port"], relaunch=True)
    assert second["execution_id"] != first["execution_id"]
    assert second["port"] == first["port"]
    assert services.status()["services"] == {"vllm": second["execution_id"]}
    taken = services.start(port=first["port"], service="second")
    assert (taken["outcome"], taken["error"]["code"]) == ("blocked", "port_taken")


def test_a_start_that_fails_is_cleaned_up_and_explained(world: World, services: Services) -> None:
    failed = services.start(extra_env={"VAWS_SIM_FAULT": "die_loading"})
    assert (failed["outcome"], failed["error"]["code"]) == ("failed", "service_exited")
    assert (failed["class"], failed["signature"], failed["phase"]) == ("oom", "npu_oom", "weights")
    assert "NPU out of memory" in failed["line"]
    assert "NPU out of memory" in failed["error"]["message"]
    assert failed["error"]["hint"].startswith("The model needs more device memory")
    assert {item["class"] for item in failed["secondary"]} == {"engine_dead"}
    assert world.vllm() == {}

    seen = services.status()
    assert (seen["state"], seen["diagnosis"]["signature"], seen["services"]) == ("exited", "npu_oom", {})
    for named in ({"service": "vllm"}, {"execution_id": failed["execution_id"]}):
        explained = services.explain(**named)
        assert (explained["class"], explained["signature"], explained["source"]) == ("oom", "npu_oom", "execution")
    services.ready()


def test_a_service_that_is_not_ready_in_time_is_left_starting(services: Services) -> None:
    short = services.start(extra_env=NEVER_READY, wait_s=0.5)
    assert (short["status"], short["outcome"]) == ("starting", "success")
    assert "serve_start again" in short["hint"]

    late = services.start(extra_env=NEVER_READY, health_timeout=1)
    assert (late["outcome"], late["error"]["code"]) == ("timeout", "service_not_ready")
    assert "left as it is" in late["error"]["message"]
    assert late["execution_id"] == short["execution_id"]
    seen = services.status()
    assert (seen["state"], seen["missing"]) == ("starting", "it does not listen")
    assert services.stop()["resources_released"] is True


def test_nobody_needs_to_wait_for_a_start(world: World, task: Task, services: Services) -> None:
    words = ("serve-start", "--context-file", task.context_file, "--model", world.facts["model"])
    submitted = world.cli(*words, "--devices", "none", "--no-wait", "--", "--max-model-len", "512")
    assert (submitted.code, submitted.answer["status"], submitted.answer["outcome"]) == (0, "starting", "success")
    ready = services.ready(serve_args=["--max-model-len", "512"], reconnected=True)
    assert ready["execution_id"] == submitted.answer["execution_id"]


def test_the_death_of_who_started_it_does_not_end_a_start(world: World, task: Task, services: Services) -> None:
    words = ["serve-start", "--context-file", task.context_file, "--model", world.facts["model"], "--devices", "none"]
    with subprocess.Popen(
        [*COMMAND, *words, "--extra-env", "VAWS_SIM_FAULT=never_ready"],
        env=surroundings(world.state_dir),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as client:
        until(lambda: "VLLM::Worker_TP0" in str(world.vllm()), 20, "a worker runs")
        client.kill()
    assert any("vllm serve" in line for line in world.vllm().values())
    (execution,) = task.executions
    again = services.start(extra_env=NEVER_READY, wait_s=0)
    assert (again["execution_id"], again["reconnected"]) == (execution.name, True)
    assert services.stop()["execution_id"] == execution.name


def test_a_service_whose_worker_was_killed_says_so_and_why(world: World, services: Services) -> None:
    services.ready()
    for pid in [pid for pid, line in world.vllm().items() if line.startswith("VLLM::Worker")]:
        os.kill(pid, signal.SIGKILL)

    states: set[str] = set()

    def ended() -> bool:
        states.add(services.status()["state"])
        return "exited" in states

    until(ended, 15, "the server has left")
    assert states <= {"ready", "degraded", "stopping", "exited"}
    explained = services.status()["diagnosis"]
    assert explained is not None
    assert explained["class"] == "engine_dead"


def test_a_service_whose_records_were_deleted_is_lost_and_not_unheard_of(world: World, services: Services) -> None:
    started = services.start(wait=False)
    folder = Path(world.facts["root"]) / "root" / ".vaws" / "executions" / started["execution_id"]
    folder.rename(folder.with_name("aside"))
    seen = services.status()
    if not folder.exists():
        folder.with_name("aside").rename(folder)
    assert seen["outcome"] == "success"
    assert seen["state"] in ("lost", "running", "starting", "degraded", "ready")
    assert services.stop()["resources_released"] is True


def test_devices_are_leased_by_default_and_the_next_service_waits_in_the_queue(services: Services) -> None:
    first = services.ready(tp=4, dp=2, devices=None)
    assert len(first["devices"]) == 8
    queued = services.start(tp=2, devices=None, service="second", wait_s=0.5)
    assert (queued["status"], queued["outcome"]) == ("queued", "success")
    assert queued["queue"]["position"] == 1
    assert first["execution_id"] in str(queued["queue"])
    seen = services.status(service="second")
    assert (seen["state"], seen["execution_id"]) == ("queued", queued["execution_id"])

    assert services.stop()["resources_released"] is True
    ready = services.ready(tp=2, devices=None, service="second", reconnected=True)
    assert ready["execution_id"] == queued["execution_id"]
    assert len(ready["devices"]) == 2
    assert services.stop(service="second")["resources_released"] is True


def test_a_service_holds_its_source_tree_and_is_not_started_from_one_that_is_written(
    world: World, services: Services
) -> None:
    path = world.repo / ".git" / "vaws-tree.lock"
    services.ready()
    with path.open("rb") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert services.stop()["resources_released"] is True
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        blocked = services.start(wait_s=10)
    assert (blocked["outcome"], blocked["error"]["code"]) == ("blocked", "tree_locked"), blocked
    assert str(world.repo) in blocked["error"]["message"]
    services.ready()


def test_a_service_with_an_idle_limit_ends_when_nobody_asks_for_it(world: World, services: Services) -> None:
    services.ready(idle_ttl="2s")
    for _ in range(4):
        time.sleep(0.7)
        assert services.status()["state"] == "ready"
    until(lambda: world.vllm() == {}, 20, "it has ended by itself")
    until(lambda: services.status()["state"] == "exited", 10, "its end is recorded")
    assert services.status()["diagnosis"] is None


def test_a_service_that_is_not_there_is_absent(services: Services) -> None:
    seen = services.status(service="nothing")
    assert (seen["status"], seen["outcome"]) == ("absent", "success")
    assert "serve_start" in seen["hint"]
    assert services.stop(service="nothing")["was_running"] is False
    assert services.logs(service="nothing")["error"]["code"] == "execution_unknown"


@pytest.mark.asyncio
async def test_a_log_is_explained_without_task_or_endpoint(
    mcp: Callable[[], AbstractAsyncContextManager[Client]], cli: Cli, tmp_path: Path
) -> None:
    log = tmp_path / "serve.log"
    log.write_bytes(b"\xff\x00noise\r\nvllm: error: unrecognized arguments: --no-such-flag\n")
    told = cli("explain-failure", "--log", str(log))
    assert told.code == 0
    assert (told.answer["class"], told.answer["line"]) == (
        "usage",
        "vllm: error: unrecognized arguments: --no-such-flag",
    )

    done = subprocess.run(  # noqa: ASYNC221 - nothing else goes on
        [*COMMAND, "explain-failure", "--log", "-"],
        env=surroundings(cli.state_dir),
        input=log.read_bytes(),
        capture_output=True,
        timeout=30,
        check=False,
    )
    piped = orjson.loads(done.stdout)
    assert (piped["signature"], piped["source"]) == ("bad_flag", "stdin")

    refused = cli("explain-failure", "--log", str(tmp_path))
    assert (refused.code, refused.answer["error"]["code"]) == (2, "log_unreadable")
    calls: list[tuple[Json, str]] = [({"text": "vllm: error: unrecognized arguments: x"}, "usage")]
    calls += [({"log": "-"}, "refused"), ({"log": str(tmp_path / "absent")}, "refused"), ({}, "refused")]
    async with mcp() as client:
        for arguments, status in calls:
            result = await client.call_tool("explain_failure", arguments)
            assert orjson.loads(getattr(result.content[0], "text", ""))["status"] == status


HANGING_VLLM = """#!{python}
import http.server, json, sys, time
words = sys.argv[1:]
port, name = int(words[words.index("--port") + 1]), words[words.index("--served-model-name") + 1]
class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({{"data": [{{"id": name}}]}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        time.sleep(60)
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Api).serve_forever()
"""


def test_a_server_that_says_it_is_healthy_and_never_answers_is_not_ready(tmp_path: Path) -> None:
    """Workers may vanish while the API server lives: /health is 200, and a completion hangs."""
    program = tmp_path / "venv" / "bin" / "vllm"
    program.parent.mkdir(parents=True)
    program.write_text(HANGING_VLLM.format(python=sys.executable), "utf-8")
    program.chmod(0o755)
    state_dir, home = tmp_path / ".vaws-local", tmp_path / "home"
    for folder in (state_dir, home):
        folder.mkdir()
    (state_dir / "endpoints.toml").write_text(f'[here]\nvenv = "{program.parent.parent}"\n', "utf-8")
    cli = Cli(state_dir)
    env = {"HOME": str(home)}
    context = cli("task-create", "hangs", "--endpoint", "here", **env).answer["context_file"]
    words = ("--context-file", context)
    try:
        started = cli(
            *("serve-start", *words, "--model", "org/m", "--devices", "none", "--wait-s", "2"),
            **env,
        )
        assert (started.code, started.answer["status"]) == (0, "starting"), started.answer
        assert started.answer["missing"].startswith("no first token within")
        seen = cli("serve-status", *words, "--token-timeout", "1", **env).answer
        assert (seen["state"], seen["health"], seen["models"]) == ("degraded", 200, ["m"])
        assert seen["missing"] == "no first token within 1 s"
        assert seen["first_token_s"] is None
        assert "no engine or worker process lives" in seen["summary"]
    finally:
        stopped = cli("serve-stop", *words, **env)
    assert stopped.answer["resources_released"] is True

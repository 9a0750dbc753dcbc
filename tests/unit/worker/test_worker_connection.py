from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest
from worker_client import PROJECT, Client, Start, WorkerError, rss_kib

from vaws_mcp.worker import wire


def test_hello_has_the_agreed_fields(worker: Client, home: Path) -> None:
    assert tuple(worker.hello) == wire.HELLO_FIELDS
    assert worker.hello["protocol"] == wire.PROTOCOL
    assert worker.hello["pid"] == worker.process.pid
    assert worker.hello["home"] == str(home)
    assert worker.hello["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert worker.hello["simulated"] is False


def test_a_simulated_worker_says_so_and_has_a_boot_id_of_its_own(start: Start) -> None:
    worker = start(VAWS_SIM="1", VAWS_SIM_BOOT_ID="boot-1", VAWS_SIM_MARKER="m1")
    assert worker.hello["simulated"] is True
    assert worker.hello["boot_id"] == "boot-1"
    assert worker.call("probe").result["simulated"] is True


def test_the_worker_can_be_started_as_a_module(start: Start) -> None:
    worker = start([sys.executable, "-u", "-m", "vaws_mcp.worker"], cwd=str(PROJECT))
    assert worker.call("ping").result == {}
    assert worker.close_input() == 0


def test_a_frame_may_arrive_byte_by_byte(worker: Client) -> None:
    for byte in b"".join(wire.encode({"id": 1, "call": "ping", "params": {}})):
        worker.send_raw(bytes([byte]))
    assert worker.read_frame() == ({"id": 1, "result": {}}, b"")


def test_many_frames_may_arrive_at_once(worker: Client) -> None:
    worker.send_raw(b"".join(b"".join(wire.encode({"id": n, "call": "ping"})) for n in range(1, 51)))
    assert {worker.read_frame()[0]["id"] for _ in range(50)} == set(range(1, 51))


def test_garbage_ends_the_worker_after_its_families(worker: Client, home: Path) -> None:
    worker.start("run", {"command": f"echo $$ > {home}/pid; exec sleep 100"})
    pid = wait_for_pid(home / "pid")
    worker.send_raw(b"GET / HTTP/1.1\r\n\r\n")
    assert worker.process.wait(10) == 2
    assert not Path(f"/proc/{pid}").exists()


def test_the_end_of_the_connection_drains_all_requests(worker: Client, home: Path) -> None:
    worker.start("run", {"command": f"trap '' TERM; echo $$ > {home}/pid; sleep 100; sleep 100", "stop_grace_s": 0.1})
    pid = wait_for_pid(home / "pid")
    assert worker.close_input() == 0
    assert not Path(f"/proc/{pid}").exists()


def test_sigterm_drains_all_requests(worker: Client, home: Path) -> None:
    worker.start("run", {"command": f"echo $$ > {home}/pid; exec sleep 100"})
    pid = wait_for_pid(home / "pid")
    worker.process.send_signal(signal.SIGTERM)
    worker.process.wait(10)
    assert not Path(f"/proc/{pid}").exists()


def wait_for_pid(path: Path) -> int:
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        if path.exists() and path.read_text().endswith("\n"):
            return int(path.read_text())
        time.sleep(0.01)
    raise TimeoutError(path)


def test_an_unknown_method_is_refused_and_the_connection_stays(worker: Client) -> None:
    with pytest.raises(WorkerError) as caught:
        worker.call("rnu")
    assert caught.value.code == "unknown_method"
    assert "rnu" in caught.value.error["message"]
    assert worker.call("ping").result == {}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("run", {}),
        ("run", {"argv": ["true"], "command": "true"}),
        ("run", {"argv": "true"}),
        ("run", {"command": "true", "timeout_s": -1}),
        ("run", {"command": "true", "env": {"A=B": "1"}}),
        ("run", {"command": "tr\0ue"}),
        ("read", {"path": 3}),
        ("read", {"path": "/etc/hosts", "limit": 0}),
        ("write", {"path": "/nowhere", "if_exists": "maybe"}),
        ("http", {"port": 0}),
        ("ports", {"ports": ["x"]}),
        ("execution.status", {"execution_id": "../up"}),
    ],
)
def test_bad_parameters_are_the_callers_error(worker: Client, method: str, params: dict[str, object]) -> None:
    with pytest.raises(WorkerError) as caught:
        worker.call(method, params)
    assert (caught.value.code, caught.value.error["layer"]) == ("bad_params", "caller")


def test_a_deadline_ends_any_request(worker: Client) -> None:
    with pytest.raises(WorkerError) as caught:
        worker.finish(worker.start("run", {"command": "sleep 100"}, deadline_s=0.1))
    assert caught.value.code == "deadline"
    assert caught.value.error["details"]["drained"] == {"signalled": 1, "survivors": []}


def test_nobody_waits_for_a_long_request(worker: Client) -> None:
    slow = [worker.start("run", {"command": "sleep 100"}) for _ in range(50)]
    began = time.monotonic()
    worker.call("ping")
    assert time.monotonic() - began < 1.0
    for number in slow:
        worker.send({"id": number, "cancel": True})
    for number in slow:
        with pytest.raises(WorkerError, match="cancelled"):
            worker.finish(number)


def test_a_cancel_for_an_answered_request_is_ignored(worker: Client) -> None:
    number = worker.start("ping", {})
    worker.finish(number)
    worker.send({"id": number, "cancel": True})
    assert worker.call("ping").result == {}


def test_the_worker_leaves_no_descriptor_open(worker: Client) -> None:
    def opened() -> int:
        return len(list(Path(f"/proc/{worker.process.pid}/fd").iterdir()))

    def round_of_requests() -> None:
        worker.bash("true")
        worker.call("run", {"argv": ["cat"]}, b"x" * 100000)
        for params in ({"argv": ["/nowhere"]}, {"command": "true", "cwd": "/nowhere"}):
            with pytest.raises(WorkerError):
                worker.call("run", params)

    round_of_requests()
    before = opened()
    for _ in range(20):
        round_of_requests()
    assert opened() < before + 20  # an additional thread may have come, with a pipe of its own


def test_a_big_body_comes_back_whole(worker: Client) -> None:
    body = bytes(range(256)) * 40000
    answer = worker.call("run", {"argv": ["cat"], "max_output_bytes": len(body)}, body)
    assert answer.body == body
    assert rss_kib(worker.process.pid) < 150_000


@pytest.mark.parametrize("method", ["write", "run"])
def test_a_worker_that_was_frozen_does_not_start_what_was_given_up_meanwhile(
    worker: Client, tmp_path: Path, method: str
) -> None:
    paths = [tmp_path / str(number) for number in range(30)]
    worker.call("ping")
    worker.process.send_signal(signal.SIGSTOP)
    for path in paths:
        params = {"path": str(path)} if method == "write" else {"command": f"echo late > {path}", "detach": True}
        worker.start(method, params, b"late" if method == "write" else b"")
    assert worker.process.stdin
    worker.process.stdin.close()
    worker.process.send_signal(signal.SIGCONT)
    assert worker.process.wait(10) == 0
    assert [path.name for path in paths if path.exists()] == []

"""What can be taken from under an execution: each ends in a clear state, and none in a wrong one."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from npu_world import Caller, World, eventually
from worker_client import Client, Start, WorkerError, worker_argv

from vaws_mcp.worker.supervisor.turn import RELOCK_S

LOOK_S = 15.0


def test_after_a_restart_of_the_machine_nothing_is_held_and_the_old_is_lost(
    caller: Caller, world: World, start: Start
) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    after = Caller(start(**{**world.env, "VAWS_SIM_BOOT_ID": "another"}), world)
    found = after.status("e-1")
    assert (found["state"], found["resources_released"]) == ("lost", True)
    assert after.call("execution.touch", execution_id="e-1")["state"] == "lost"
    with pytest.raises(AssertionError, match="restarted"):
        after.wait("e-1", "running")


def test_deleted_records_are_written_anew_and_the_execution_can_be_stopped(caller: Caller, world: World) -> None:
    first = caller.filled("e-1", {"ids": ["0"]})
    shutil.rmtree(world.home / ".vaws")
    caller.submit("e-2", devices={"ids": ["0"]})
    holder = caller.queued("e-2", lambda queue: queue["waiting_for"])["queue"]["waiting_for"][0]["holder"]
    assert holder["execution_id"] == "e-1"
    eventually(lambda: caller.folder("e-1").exists() and (caller.folder("e-1") / "status.json").exists(), LOOK_S)
    found = caller.status("e-1")
    assert (found["state"], found["supervised"], found["root"]) == ("running", True, first["root"])
    assert "deleted" in found["note"]
    assert caller.stop("e-1")["resources_released"] is True
    caller.wait("e-2", "running")


def test_a_deleted_lock_file_is_locked_anew(caller: Caller, world: World) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    shutil.rmtree(world.lease_dir)

    def named() -> bool:
        leases = caller.call("lease.list")["leases"]
        return bool(leases) and leases[0]["holder"] is not None and "owner" in leases[0]["holder"]

    eventually(named, LOOK_S)
    caller.submit("e-2", devices={"ids": ["0"]})
    caller.queued("e-2")


def test_torn_records_of_others_do_no_harm(caller: Caller, world: World) -> None:
    world.lease_dir.mkdir()
    (world.lease_dir / "0000:C1:00.0.lock").write_text('{"execution_id": "e-to')
    (world.lease_dir / "7.ticket").write_text('{"keys": [')
    (world.lease_dir / ".new-8").write_text("")
    (world.lease_dir / "x.ticket").write_text("")
    (world.home / ".vaws").mkdir()
    (world.home / ".vaws" / "npu-map.json").write_text('{"boot_id": "x", "dev')
    caller.filled("e-1", {"ids": ["0"]})
    assert sorted(path.name for path in world.lease_dir.iterdir() if "ticket" in path.name or "new" in path.name) == [
        "x.ticket"
    ]
    with (world.lease_dir / "0000:C1:00.0.lock").open("r+") as stream:
        stream.truncate(5)
    caller.submit("e-2", devices={"ids": ["0"]})
    entry = caller.queued("e-2", lambda queue: queue["waiting_for"])["queue"]["waiting_for"][0]
    assert entry["holder"] == {"execution_id": "e-1"}


def test_an_outdated_map_of_devices_costs_a_probe_and_leases_the_right_device(caller: Caller, world: World) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    caller.stop("e-1")
    path = world.home / ".vaws" / "npu-map.json"
    entry = json.loads(path.read_text())
    devices = entry["devices"]
    devices[0]["key"], devices[1]["key"] = devices[1]["key"], devices[0]["key"]
    path.write_text(json.dumps(entry))
    found = caller.filled("e-2", {"ids": ["0"]})
    assert [lease["key"] for lease in caller.call("lease.list")["leases"]] == [found["devices"][0]["bus_id"]]


def test_a_second_supervisor_of_one_execution_gives_way(caller: Caller) -> None:
    found = caller.filled("e-1", {"ids": ["0"]})
    argv = Path(f"/proc/{found['supervisor']['pid']}/cmdline").read_bytes().split(b"\0")[:-1]
    done = subprocess.run(argv, env={**os.environ, **caller.world.env}, timeout=20, check=False, capture_output=True)
    assert done.returncode == 3
    assert caller.status("e-1")["root"] == found["root"]


def test_ports_are_leased_and_the_next_one_waits(caller: Caller) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    caller.submit("e-1", ports=[port])
    assert caller.wait("e-1", "running")["ports"] == [port]
    caller.submit("e-2", ports=[port])
    entry = caller.queued("e-2", lambda queue: queue["waiting_for"])["queue"]["waiting_for"][0]
    assert (entry["port"], entry["holder"]["execution_id"]) == (port, "e-1")
    caller.stop("e-1")
    caller.wait("e-2", "running")


def test_a_port_that_somebody_listens_on_ends_the_execution(caller: Caller) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
        caller.submit("e-1", ports=[port])
        eventually(lambda: caller.status("e-1")["state"] == "exited")
        found = caller.status("e-1")
    assert (found["blocked"]["code"], found["exit"]["reason"]) == ("port_in_use", "failed")


def test_free_ports_are_chosen_and_told_to_the_command(caller: Caller) -> None:
    caller.submit("e-1", ["sh", "-c", "echo $VAWS_PORTS; sleep 100"], port_count=2)
    found = caller.wait("e-1", "running")
    assert len(set(found["ports"])) == 2
    eventually(lambda: caller.output("e-1"))
    assert caller.output("e-1") == ",".join(str(port) for port in found["ports"]) + "\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("a small disk can be mounted by root only")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], check=False)
    if done.returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def filled_up(folder: Path) -> Path:
    path = folder / "filler"
    with path.open("wb", buffering=0) as stream:
        try:
            while stream.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return path


def test_a_lease_directory_on_a_full_disk_grants_by_the_sockets_and_says_so(caller: Caller, small_disk: Path) -> None:
    filler = filled_up(small_disk)
    caller.submit("e-1", devices={"ids": ["0"]}, lease_dir=str(small_disk))
    found = caller.wait("e-1", "running")
    assert "no lease directory is usable" in found["lease_scope_why"]
    filler.unlink()
    caller.submit("e-2", devices={"ids": ["0"]}, lease_dir=str(small_disk))
    assert caller.queued("e-2", lambda queue: queue["waiting_for"])["queue"]["position"] == 1
    caller.stop("e-1")
    caller.wait("e-2", "running")


def test_a_read_only_lease_directory_is_told(caller: Caller, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    caller.submit("e-1", devices={"ids": ["0"]}, lease_dir=str(small_disk))
    assert "Read-only" in caller.wait("e-1", "running")["lease_scope_why"]
    caller.submit("e-2", devices={"ids": ["0"]}, lease_dir=str(small_disk))
    caller.queued("e-2", lambda queue: queue["waiting_for"])


def test_a_disk_that_fills_up_while_it_runs_keeps_the_lease_and_the_stop(
    world: World, start: Start, small_disk: Path
) -> None:
    home = small_disk / "home"
    home.mkdir()
    world.home, world.env["HOME"] = home, str(home)
    caller = Caller(start(**world.env), world)
    caller.filled("e-1", {"ids": ["0"]})
    filler = filled_up(small_disk)
    with pytest.raises(WorkerError, match="disk_full"):
        caller.submit("e-2", devices={"ids": ["0"]})
    assert caller.status("e-1")["state"] == "running"
    assert [lease["holder"]["execution_id"] for lease in caller.call("lease.list")["leases"]] == ["e-1"]
    stopped = caller.worker.start("execution.stop", {"execution_id": "e-1", "reason": "test", "wait_s": 2})
    left = caller.worker.finish(stopped).result
    assert caller.call("lease.list")["leases"] == []
    filler.unlink()
    ended = caller.stop("e-1")
    assert (left["state"] in ("running", "exited", "lost"), ended["state"]) == (True, "exited")
    assert ended["resources_released"] is True


def test_a_worker_of_another_container_names_the_same_devices(world: World, start: Start, caller: Caller) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    other: Client = start(**{**world.env, "HOME": str(world.root)})
    assert other.call("lease.list").result["leases"][0]["holder"]["execution_id"] == "e-1"


def test_a_device_that_another_has_by_now_does_not_keep_a_lost_execution_from_being_released(caller: Caller) -> None:
    first = caller.filled("e-1", {"ids": ["0"]})
    for who in ("supervisor", "root"):
        os.kill(first[who]["pid"], signal.SIGKILL)
    eventually(lambda: caller.status("e-1")["state"] == "lost")
    caller.filled("e-2", {"ids": ["0"]})
    found = caller.stop("e-1")
    assert (found["state"], found["resources_released"]) == ("exited", True)
    assert caller.status("e-2")["state"] == "running"


def test_what_was_not_released_when_it_ended_is_looked_at_again_by_the_next_stop(caller: Caller, world: World) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    world.npu_smi_says("error", 1)
    assert caller.stop("e-1")["resources_released"] is False
    world.npu_smi_works()
    found = caller.stop("e-1")
    assert (found["resources_released"], found["exit"]["reason"]) == (True, "cancelled")
    assert caller.status("e-1")["resources_released"] is True


def test_a_queued_execution_whose_records_were_deleted_is_found_again_and_never_starts_after_its_stop(
    caller: Caller, world: World
) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    caller.submit("e-2", devices={"ids": ["0"]})
    caller.queued("e-2", lambda queue: queue["waiting_for"])
    shutil.rmtree(caller.folder("e-2"))
    eventually((caller.folder("e-2") / "status.json").exists, LOOK_S)
    assert "deleted" in caller.queued("e-2")["note"]
    ended = caller.stop("e-2")
    assert (ended["state"], ended["started_at"], ended["resources_released"]) == ("exited", None, True)


def private_network(world: World, start: Start, home: Path) -> Caller:
    """Return a caller in a network namespace of its own: only the lease directory keeps the two apart."""
    home.mkdir()
    other = copy.copy(world)
    other.home = home
    argv = ["unshare", "--net", *worker_argv(sys.executable)]
    return Caller(start(argv, **{**world.env, "HOME": str(home)}), other)


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_whoever_waits_lets_the_holders_lock_a_deleted_directory_anew(
    caller: Caller, world: World, start: Start, tmp_path: Path
) -> None:
    other = private_network(world, start, tmp_path / "other")
    caller.submit("r", hold={"idle_s": 600}, devices={"ids": ["0"]})
    caller.wait("r", "running")
    other.submit("e-2", devices={"ids": ["0"]})
    other.queued("e-2", lambda queue: queue["waiting_for"])
    shutil.rmtree(world.lease_dir)
    eventually((world.lease_dir / "0000:C1:00.0.lock").exists, LOOK_S)
    time.sleep(RELOCK_S + 1.0)
    found = other.queued("e-2", lambda queue: queue["waiting_for"])
    assert found["queue"]["waiting_for"][0]["holder"]["execution_id"] == "r"
    caller.stop("r")
    other.wait("e-2", "running")
    other.end_all()


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_a_holder_whose_lock_another_got_after_its_deletion_says_so(
    caller: Caller, world: World, start: Start, tmp_path: Path
) -> None:
    other = private_network(world, start, tmp_path / "other")
    caller.submit("r", hold={"idle_s": 600}, devices={"ids": ["0"]})
    caller.wait("r", "running")
    shutil.rmtree(world.lease_dir)
    other.submit("e-2", devices={"ids": ["0"]})  # it never saw the directory that was deleted
    other.wait("e-2", "running")
    eventually(lambda: "in use twice" in (caller.status("r")["note"] or ""), LOOK_S)
    other.end_all()


def test_a_launch_looks_after_its_leases_when_its_reservation_has_ended(caller: Caller, world: World) -> None:
    caller.submit("r", hold={"idle_s": 600}, devices={"ids": ["0"]})
    reserved = caller.wait("r", "running")
    caller.submit("e-1", devices={"ids": ["0"]}, reservation="r")
    caller.wait("e-1", "running")
    os.kill(reserved["supervisor"]["pid"], signal.SIGKILL)
    eventually(lambda: caller.call("lease.list")["leases"][0]["holder"]["execution_id"] == "e-1")
    shutil.rmtree(world.lease_dir)
    eventually((world.lease_dir / "0000:C1:00.0.lock").exists, LOOK_S)
    assert caller.call("lease.list")["leases"][0]["holder"]["owner"] == "e-1@lap"

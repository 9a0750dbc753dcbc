"""A reservation keeps devices, ports and trees for the launches in it, and for nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from npu_world import FILLS, Caller, eventually
from worker_client import WorkerError

from vaws_mcp.worker.refusal import Refusal
from vaws_mcp.worker.supervisor import trees

HOLD: dict[str, Any] = {"idle_s": 600, "for_s": None}


def reserve(caller: Caller, name: str = "r", **fields: Any) -> dict[str, Any]:
    wanted: dict[str, Any] = {"devices": {"ids": ["0", "1"]}, "hold": HOLD, **fields}
    caller.submit(name, **wanted)
    return caller.wait(name, "running")


def tree(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(folder)], check=True, capture_output=True)
    return folder


def test_a_hold_runs_nothing_and_keeps_its_devices(caller: Caller) -> None:
    found = reserve(caller)
    assert (found["root"], [device["logic"] for device in found["devices"]]) == (None, [0, 1])
    caller.submit("e-1", devices={"ids": ["1"]})
    entry = caller.queued("e-1", lambda queue: queue["waiting_for"])["queue"]["waiting_for"][0]
    assert (entry["holder"]["execution_id"], entry["holder"]["what"]) == ("r", "reservation")
    ended = caller.stop("r")
    assert (ended["state"], ended["exit"]["reason"], ended["resources_released"]) == ("exited", "cancelled", True)
    caller.wait("e-1", "running")


def test_launches_in_it_get_its_devices_one_after_the_other(caller: Caller) -> None:
    reserved = reserve(caller)
    inside: dict[str, Any] = {"reservation": "r", "devices": {"same_as_reservation": True}}
    first = caller.filled("e-1", inside["devices"], reservation="r")
    assert (first["devices"], first["reservation"]) == (reserved["devices"], "r")
    caller.submit("e-2", FILLS, **inside)
    entry = caller.queued("e-2")["queue"]["waiting_for"][0]
    assert entry["holder"]["execution_id"] == "e-1"
    assert caller.stop("e-1")["resources_released"] is True
    assert caller.wait("e-2", "running")["devices"] == reserved["devices"]
    caller.stop("e-2")
    assert caller.status("r")["state"] == "running"


def test_launches_on_different_devices_of_it_run_together(caller: Caller) -> None:
    reserve(caller)
    caller.filled("e-1", {"ids": ["0"]}, reservation="r")
    found = caller.filled("e-2", {"ids": ["1"]}, reservation="r")
    assert [device["logic"] for device in found["devices"]] == [1]
    caller.submit("e-3", ["true"], reservation="r")
    assert caller.wait("e-3", "released")["exit"]["reason"] == "succeeded"


def test_a_device_that_it_does_not_have_is_refused(caller: Caller) -> None:
    reserve(caller)
    caller.submit("e-1", devices={"ids": ["2"]}, reservation="r")
    eventually(lambda: caller.status("e-1")["state"] == "exited")
    assert caller.status("e-1")["blocked"]["code"] == "device_unknown"


def test_a_launch_waits_while_its_reservation_is_queued_and_fails_when_it_is_gone(caller: Caller) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    caller.submit("r", hold=HOLD, devices={"ids": ["0"]})
    caller.submit("e-2", devices={"same_as_reservation": True}, reservation="r")
    assert "queued itself" in caller.queued("e-2")["queue"]["waiting_for"][0]["reason"]
    caller.stop("e-1")
    caller.wait("e-2", "running")
    caller.stop("e-2")
    caller.stop("r")
    caller.submit("e-3", devices={"same_as_reservation": True}, reservation="r")
    eventually(lambda: caller.status("e-3")["state"] == "exited")
    assert caller.status("e-3")["blocked"]["code"] == "reservation_gone"


def test_killing_it_frees_nothing_that_a_launch_uses(caller: Caller) -> None:
    reserved = reserve(caller)
    caller.submit("e-1", devices={"ids": ["0"]}, reservation="r")
    caller.wait("e-1", "running")
    os.kill(reserved["supervisor"]["pid"], signal.SIGKILL)
    caller.submit("e-2", devices={"ids": ["1"]})
    caller.wait("e-2", "running")
    caller.submit("e-3", devices={"ids": ["0"]})

    def told(queue: dict[str, Any]) -> bool:
        return bool(queue["waiting_for"]) and queue["waiting_for"][0]["holder"]["execution_id"] == "e-1"

    caller.queued("e-3", told)
    caller.stop("e-1")
    caller.wait("e-3", "running")


def test_it_ends_when_nobody_uses_or_wants_it(caller: Caller) -> None:
    caller.submit("r", hold={"idle_s": 1.5}, devices={"ids": ["0"]})
    caller.wait("r", "running")
    for _ in range(4):
        assert caller.call("execution.touch", execution_id="r")["state"] == "running"
        caller.submit("wait", ["sleep", "0.5"])
        caller.wait("wait", "released")
        caller.call("execution.stop", execution_id="wait")
    caller.submit("e-1", ["sleep", "2.5"], devices={"ids": ["0"]}, reservation="r")
    caller.wait("e-1", "released")
    assert caller.status("r")["state"] == "running"
    found = caller.wait("r", "released")
    assert (found["exit"]["reason"], "unused" in found["note"]) == ("timeout", True)


def test_it_ends_after_its_time(caller: Caller) -> None:
    caller.submit("r", hold={"for_s": 0.3}, devices={"ids": ["0"]})
    found = caller.wait("r", "released")
    assert (found["exit"]["reason"], "held for" in found["note"]) == ("succeeded", True)


def test_a_stopped_one_waits_for_its_launches_and_names_them(caller: Caller) -> None:
    reserve(caller, stop={"int_s": 0.1, "term_s": 0.1, "kill_s": 0.1})
    caller.submit("e-1", devices={"ids": ["0"]}, reservation="r")
    caller.wait("e-1", "running")
    ended = caller.stop("r")
    assert (ended["state"], ended["resources_released"]) == ("exited", False)
    assert "e-1" in ended["note"]
    caller.submit("e-2", devices={"ids": ["0"]})
    caller.queued("e-2")


def test_a_stopped_one_that_was_still_in_use_is_released_when_it_is_stopped_after_its_launches(caller: Caller) -> None:
    reserve(caller, stop={"int_s": 0.1, "term_s": 0.1, "kill_s": 0.1})
    caller.submit("e-1", devices={"ids": ["0"]}, reservation="r")
    caller.wait("e-1", "running")
    assert caller.stop("r")["resources_released"] is False
    again = caller.stop("r")
    assert (again["resources_released"], again["survivors"][0]["execution_id"]) == (False, "e-1")
    caller.stop("e-1")
    last = caller.stop("r")
    assert (last["state"], last["resources_released"], last["survivors"]) == ("exited", True, [])
    assert caller.wait("r", "released")["exit"]["reason"] == "cancelled"


def test_a_command_ends_when_nobody_wants_it_any_more(caller: Caller) -> None:
    caller.submit("e-1", idle_s=0.5)
    found = caller.wait("e-1", "released")
    assert (found["exit"]["reason"], "nobody used it" in found["stop_reason"]) == ("timeout", True)


def test_a_tree_has_many_readers_or_one_writer(caller: Caller, tmp_path: Path) -> None:
    path = str(tree(tmp_path / "tree"))
    caller.submit("e-1", trees=[{"path": path}])
    caller.submit("e-2", trees=[{"path": path, "mode": "shared"}])
    caller.wait("e-1", "running")
    caller.wait("e-2", "running")
    state = caller.call("tree.lock_state", path=path)
    assert (state["locked"], state["mode"]) == (True, "shared")
    assert sorted(holder["execution_id"] for holder in state["holders"]) == ["e-1", "e-2"]
    with pytest.raises(Refusal) as caught, trees.exclusive(path, "checkout"):
        pytest.fail("two holders")
    assert caught.value.code == "tree_locked"
    assert "e-1@lap" in caught.value.message
    caller.submit("e-3", trees=[{"path": path, "mode": "exclusive"}])
    eventually(lambda: caller.status("e-3")["state"] == "exited")
    blocked = caller.status("e-3")["blocked"]
    assert (blocked["code"], len(blocked["details"]["holders"])) == ("tree_locked", 2)
    caller.stop("e-1")
    caller.stop("e-2")
    with trees.exclusive(path, "checkout"):
        state = caller.call("tree.lock_state", path=path)
        assert (state["mode"], state["holders"][0]["who"]) == ("exclusive", "checkout")
    assert caller.call("tree.lock_state", path=path)["locked"] is False


def test_a_tree_without_git_and_a_missing_one_are_refused(caller: Caller, tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match="not_a_tree"):
        caller.call("tree.lock_state", path=str(tmp_path))
    with pytest.raises(WorkerError, match="not_found"):
        caller.call("tree.lock_state", path=str(tmp_path / "no"))


def test_a_worktree_has_a_lock_of_its_own_and_a_subdirectory_has_that_of_its_tree(tmp_path: Path) -> None:
    main = tree(tmp_path / "main")
    commit = ["git", "-C", str(main), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty"]
    subprocess.run([*commit, "-m", "x"], check=True, capture_output=True)
    other = ["git", "-C", str(main), "worktree", "add", "-q", str(tmp_path / "other")]
    subprocess.run(other, check=True, capture_output=True)
    (main / "sub").mkdir()
    (tmp_path / "link").symlink_to(main / "sub")
    assert trees.git_dir_of(str(tmp_path / "link")) == str(main / ".git")
    with trees.exclusive(str(main), "a"), trees.exclusive(str(tmp_path / "other"), "b"):
        assert trees.state_of(str(tmp_path / "other"))["holders"][0]["who"] == "b"


def test_inside_a_reservation_its_tree_can_be_launched_from_and_written_in_turn(
    caller: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tree(tmp_path / "tree"))
    monkeypatch.setenv("HOME", str(caller.world.home))
    for name in ("VAWS_SIM", "VAWS_SIM_BOOT_ID", "VAWS_SIM_MARKER"):
        monkeypatch.setenv(name, caller.world.env[name])
    reserve(caller, trees=[{"path": path, "mode": "exclusive"}])
    with pytest.raises(Refusal, match="in use by r"), trees.exclusive(path, "checkout"):
        pytest.fail("it is reserved")
    launch: dict[str, Any] = {"reservation": "r", "devices": {"ids": ["0"]}, "trees": [{"path": path}]}
    with trees.exclusive(path, "checkout", "r"):
        caller.submit("e-1", **launch)
        assert caller.queued("e-1")["queue"]["waiting_for"][0]["holder"]["execution_id"] == "checkout"
    caller.wait("e-1", "running")
    with pytest.raises(Refusal, match="in use by e-1"), trees.exclusive(path, "checkout", "r"):
        pytest.fail("a launch runs from it")
    caller.stop("e-1")
    with trees.exclusive(path, "checkout", "r"):
        assert caller.status("r")["state"] == "running"

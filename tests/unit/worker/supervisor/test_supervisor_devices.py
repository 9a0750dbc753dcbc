"""Devices go to one execution at a time, in the order of asking, and only when a probe says that they are free."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Any

import pytest
from npu_world import FILLS, Caller, World, eventually
from worker_client import Start


def test_a_grant_names_its_devices_and_sets_the_variable(caller: Caller) -> None:
    found = caller.filled("e-1", {"ids": ["3", "1"]}, env={"ASCEND_RT_VISIBLE_DEVICES": "0"}, launch_receipt={"a": 1})
    assert [device["logic"] for device in found["devices"]] == [3, 1]
    assert [device["bus_id"] for device in found["devices"]] == ["0000:82:00.0", "0000:C2:00.0"]
    assert caller.output("e-1") == "full 3,1\n"
    assert (found["probe"]["ok"], found["queue"], found["blocked"]) == (True, None, None)
    receipt = caller.receipt("e-1")
    assert (receipt["launch"], receipt["devices"]) == ({"a": 1}, found["devices"])
    ended = caller.stop("e-1")
    assert (ended["state"], ended["resources_released"]) == ("exited", True)


def test_a_list_of_ids_is_the_short_form(caller: Caller) -> None:
    assert [device["logic"] for device in caller.filled("e-1", ["2"])["devices"]] == [2]


def test_without_devices_there_is_no_lease_and_no_probe(caller: Caller, world: World) -> None:
    caller.submit("e-1", ["sh", "-c", "echo [$ASCEND_RT_VISIBLE_DEVICES]"], env={"ASCEND_RT_VISIBLE_DEVICES": "1"})
    found = caller.wait("e-1", "released")
    assert (found["devices"], found["probe"], found["lease_scope"]) == (None, None, None)
    assert caller.output("e-1") == "[]\n"
    assert not world.lease_dir.exists()


def test_the_second_waits_for_the_first_and_is_told_for_whom(caller: Caller) -> None:
    first = caller.filled("e-1", {"ids": ["0"]})
    caller.submit("e-2", devices={"ids": ["0", "1"]})
    caller.submit("e-3", devices={"ids": ["1"]})
    second = caller.queued("e-2", lambda queue: queue["waiting_for"])["queue"]
    assert second["position"] == 1
    assert second["waiting_for"][0]["logic"] == 0
    holder = second["waiting_for"][0]["holder"]
    assert (holder["execution_id"], holder["owner"], holder["task_id"]) == ("e-1", "e-1@lap", "t-e-1")
    assert holder["pid"] == first["supervisor"]["pid"]
    assert first["submitted_at"] <= holder["since"] <= second["since"]
    third = caller.queued("e-3", lambda queue: queue["ahead"])["queue"]
    assert third["position"] == 2
    assert [entry["execution_id"] for entry in third["ahead"]] == ["e-2"]
    caller.stop("e-1")
    caller.wait("e-2", "running")
    assert caller.status("e-3")["state"] == "queued"
    caller.stop("e-2")
    caller.wait("e-3", "running")


def test_others_do_not_wait_for_devices_that_they_do_not_want(caller: Caller) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    caller.submit("e-2", devices={"ids": ["0"]})
    caller.queued("e-2")
    caller.submit("e-3", devices={"ids": ["1"]})
    caller.wait("e-3", "running")


def test_any_devices_are_chosen_among_those_that_are_free(caller: Caller) -> None:
    caller.filled("e-1", {"ids": ["1"]})
    caller.submit("e-2", devices={"count": 2})
    assert [device["logic"] for device in caller.wait("e-2", "running")["devices"]] == [2, 3]
    caller.submit("e-3", devices={"count": 2})
    waiting = caller.queued("e-3", lambda queue: queue["waiting_for"])["queue"]["waiting_for"]
    assert {entry["holder"]["execution_id"] for entry in waiting} <= {"e-1", "e-2"}
    caller.stop("e-2")
    assert [device["logic"] for device in caller.wait("e-3", "running")["devices"]] == [2, 3]


def test_what_a_killed_supervisor_leaves_is_occupied_and_never_given_away(caller: Caller) -> None:
    first = caller.filled("e-1", {"ids": ["0"]})
    os.kill(first["supervisor"]["pid"], signal.SIGKILL)
    caller.submit("e-2", devices={"ids": ["0"]})
    queue = caller.queued("e-2", lambda queue: queue["waiting_for"])["queue"]
    assert queue["waiting_for"][0]["holder"] is None
    assert queue["waiting_for"][0]["reason"]
    caller.submit("e-3", devices={"count": 3})
    caller.queued("e-3")
    ended = caller.stop("e-1")
    assert (ended["state"], ended["resources_released"]) == ("exited", True)
    caller.wait("e-2", "running")
    assert [device["logic"] for device in caller.wait("e-3", "running")["devices"]] == [1, 2, 3]


def test_a_queued_execution_can_be_stopped(caller: Caller) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    caller.submit("e-2", devices={"ids": ["0"]})
    caller.queued("e-2")
    ended = caller.stop("e-2")
    assert (ended["state"], ended["exit"]["reason"], ended["resources_released"]) == ("exited", "cancelled", True)
    assert ended["queue"] is None
    assert caller.call("lease.list")["tickets"] == []


def test_a_killed_waiter_leaves_the_queue(caller: Caller) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    caller.submit("e-2", devices={"ids": ["0"]})
    waiter = caller.queued("e-2")
    caller.submit("e-3", devices={"ids": ["0"]})
    caller.queued("e-3", lambda queue: queue["position"] == 2)
    os.kill(waiter["supervisor"]["pid"], signal.SIGKILL)
    caller.queued("e-3", lambda queue: queue["position"] == 1)
    eventually(lambda: caller.status("e-2")["state"] == "lost")
    assert caller.status("e-2")["resources_released"] is True
    caller.stop("e-1")
    caller.wait("e-3", "running")


@pytest.mark.parametrize(
    ("text", "status"),
    [("dcmi module initialize failed. ret is -8005", 8005 & 255), ("no such thing", 1), ("", 0)],
)
def test_a_probe_that_fails_grants_nothing_and_says_why(caller: Caller, world: World, text: str, status: int) -> None:
    world.npu_smi_says(text, status)
    caller.submit("e-1", devices={"ids": ["0"]})
    found = caller.queued("e-1")
    assert (found["probe"]["ok"], found["devices"], found["root"]) == (False, None, None)
    assert found["blocked"]["message"]
    assert caller.call("lease.list")["tickets"] == []
    world.npu_smi_works()
    found = caller.wait("e-1", "running")
    assert (found["blocked"], found["assumed_free"]) == (None, False)


def test_a_hanging_probe_does_not_keep_an_execution_from_being_stopped(caller: Caller, world: World) -> None:
    world.npu_smi_says("$(sleep 100)", 0)
    world.npu_smi.write_text("#!/bin/sh\nexec sleep 100\n")
    caller.submit("e-1", devices={"ids": ["0"]})
    ended = caller.stop("e-1")
    assert (ended["state"], ended["exit"]["reason"], ended["resources_released"]) == ("exited", "cancelled", True)


def test_without_a_probe_only_an_explicit_request_is_granted_and_it_is_recorded(caller: Caller, world: World) -> None:
    world.npu_smi_says("broken", 1)
    caller.submit("e-1", devices={"ids": ["1"], "assume_free": True})
    found = caller.wait("e-1", "running")
    assert (found["assumed_free"], found["probe"]["ok"]) == (True, False)
    assert found["lease_scope"] == "container"
    assert "bus id" in found["lease_scope_why"]
    assert caller.receipt("e-1")["assumed_free"] is True
    caller.submit("e-2", devices={"ids": ["1"], "assume_free": True})
    caller.queued("e-2", lambda queue: queue["waiting_for"])
    world.npu_smi_works()
    caller.submit("e-3", devices={"ids": ["1"]})
    caller.queued("e-3")
    ended = caller.stop("e-1")
    assert ended["resources_released"] is True
    caller.wait("e-2", "running")
    assert caller.status("e-3")["state"] == "queued"


def test_a_probe_that_breaks_while_it_runs_leaves_the_release_unknown(caller: Caller, world: World) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    world.npu_smi_says("broken", 1)
    ended = caller.stop("e-1")
    assert (ended["state"], ended["resources_released"]) == ("exited", False)
    assert "not known" in ended["note"]


def test_an_unhealthy_device_that_was_asked_for_ends_the_execution(caller: Caller, world: World) -> None:
    world.npu_smi_changed("| OK ", "| Alarm ")
    caller.submit("e-1", devices={"ids": ["0"]})
    eventually(lambda: caller.status("e-1")["state"] == "exited")
    found = caller.status("e-1")
    assert (found["exit"]["reason"], found["blocked"]["code"]) == ("failed", "device_unhealthy")
    assert found["resources_released"] is True
    caller.submit("e-2", devices={"count": 1})
    eventually(lambda: caller.status("e-2")["state"] == "exited")
    caller.submit("e-3", devices={"ids": ["0"], "skip_health": True})
    assert caller.wait("e-3", "running")["health_skipped"] is True


@pytest.mark.parametrize("devices", [{"ids": ["9"]}, {"count": 5}])
def test_a_device_that_is_not_there_ends_the_execution(caller: Caller, devices: dict[str, Any]) -> None:
    caller.submit("e-1", devices=devices)
    eventually(lambda: caller.status("e-1")["state"] == "exited")
    found = caller.status("e-1")
    assert (found["exit"]["reason"], found["blocked"]["code"]) == ("failed", "device_unknown")
    assert "0, 1, 2, 3" in found["note"] or "there are 4" in found["note"]


def test_the_list_of_leases_names_holders_and_waiters(caller: Caller) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    caller.submit("e-2", devices={"ids": ["0"]})
    caller.queued("e-2")
    found = caller.call("lease.list")
    assert [(lease["key"], lease["holder"]["execution_id"]) for lease in found["leases"]] == [("0000:C1:00.0", "e-1")]
    assert [ticket["holder"]["execution_id"] for ticket in found["tickets"]] == ["e-2"]
    assert found["lease_scope"] in ("host", "container")


def test_a_deleted_lease_directory_gives_no_device_away(caller: Caller, world: World) -> None:
    caller.filled("e-1", {"ids": ["0"]})
    caller.submit("e-2", FILLS, devices={"ids": ["0"]})
    caller.queued("e-2")
    shutil.rmtree(world.lease_dir)
    caller.submit("e-3", FILLS, devices={"ids": ["0"]})
    caller.queued("e-3")
    assert caller.status("e-2")["state"] == "queued"
    caller.stop("e-1")
    eventually(lambda: "running" in (caller.status("e-2")["state"], caller.status("e-3")["state"]))
    assert {caller.status("e-2")["state"], caller.status("e-3")["state"]} == {"running", "queued"}


def test_an_unusable_lease_directory_is_told_and_the_sockets_exclude(caller: Caller, world: World) -> None:
    world.lease_dir.write_text("a file, not a directory")
    found = caller.filled("e-1", {"ids": ["0"]})
    assert "no lease directory is usable" in found["lease_scope_why"]
    caller.submit("e-2", devices={"ids": ["0"]})
    entry = caller.queued("e-2", lambda queue: queue["waiting_for"])["queue"]
    assert entry["position"] is None
    assert entry["waiting_for"][0]["holder"] == {"execution_id": "e-1"}
    assert [lease["holder"] for lease in caller.call("lease.list")["leases"]] == [{"execution_id": "e-1"}]


def test_what_the_container_says_of_devices_is_no_grant(world: World, start: Start) -> None:
    caller = Caller(start(**world.env, ASCEND_RT_VISIBLE_DEVICES="2,3"), world)
    caller.submit("e-1", ["sh", "-c", "echo ${ASCEND_RT_VISIBLE_DEVICES-unset}"])
    caller.wait("e-1", "released")
    assert caller.output("e-1") == "unset\n"
    caller.end_all()

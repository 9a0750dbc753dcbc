"""Who else uses the devices of a launch."""

from typing import Any

from vaws_mcp.comparison.neighbours import foreign

DEVICES = [{"logic": 0, "bus_id": "0000:C1:00.0"}]


def snapshot(*holders: dict[str, Any], bus_id: str = "0000:C1:00.0") -> dict[str, Any]:
    blank = {"pid": 1, "local_pid": None, "name": None, "user": None, "execution_id": None}
    return {"ok": True, "devices": [{"bus_id": bus_id, "holders": [{**blank, **holder} for holder in holders]}]}


def test_the_executions_own_processes_are_no_neighbours() -> None:
    own = {"pid": 7, "local_pid": 7, "name": "VLLM::Worker", "execution_id": "execution-1"}
    assert foreign(snapshot(own), DEVICES, "execution-1") == []


def test_processes_of_others_are_named_with_user_and_device() -> None:
    own = {"pid": 7, "local_pid": 7, "execution_id": "execution-1"}
    other = {"pid": 8, "local_pid": 8, "name": "python", "user": "bob"}
    (sentence,) = foreign(snapshot(own, other), DEVICES, "execution-1") or []
    assert sentence == "python (pid 8) of bob on 0000:C1:00.0"


def test_another_execution_is_a_neighbour() -> None:
    assert foreign(snapshot({"pid": 9, "local_pid": 9, "execution_id": "execution-2"}), DEVICES, "execution-1")


def test_one_process_that_cannot_be_told_is_taken_for_our_own_and_a_second_is_not() -> None:
    assert foreign(snapshot({"pid": 40001}), DEVICES, "execution-1") == []
    assert len(foreign(snapshot({"pid": 40001}, {"pid": 40002}), DEVICES, "execution-1") or []) == 1


def test_other_devices_do_not_matter_and_missing_ones_leave_it_unknown() -> None:
    busy = snapshot({"pid": 8, "local_pid": 8}, bus_id="0000:01:00.0")
    assert foreign(busy, DEVICES, "execution-1") is None
    assert foreign({"ok": True, "devices": [*snapshot()["devices"], *busy["devices"]]}, DEVICES, "execution-1") == []


def test_before_a_launch_every_process_is_somebody_elses() -> None:
    assert len(foreign(snapshot({"pid": 40001}), DEVICES, None) or []) == 1
    assert foreign(snapshot(), DEVICES, None) == []

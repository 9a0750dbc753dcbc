"""The spec says what was asked for, and two requests are the same when their parts are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from vaws_mcp.coordinator.queueing import queue_sentence
from vaws_mcp.coordinator.records import executions, find_execution
from vaws_mcp.coordinator.wanted import DeviceRequest, Hold, TreeUse, Wanted, identity_parts, spec_of
from vaws_mcp.endpoint.models import EndpointConfig

HERE = EndpointConfig(name="a", host="h")


@pytest.mark.parametrize(
    ("request_", "form"),
    [
        (None, "none"),
        (DeviceRequest(ids=("0", "1")), {"ids": ["0", "1"]}),
        (DeviceRequest(count=2, assume_free=True), {"count": 2, "assume_free": True}),
        (DeviceRequest(of_reservation=True, skip_health=True), {"same_as_reservation": True, "skip_health": True}),
        (DeviceRequest(ids=("3",), of_reservation=True), {"ids": ["3"]}),
    ],
)
def test_devices_in_the_form_of_a_spec(request_: DeviceRequest | None, form: object) -> None:
    assert spec_of("t", "e", Wanted(["true"], devices=request_), "/leases")["devices"] == form


def test_a_hold_with_trees_in_a_spec() -> None:
    wanted = Wanted([], kind="hold", hold=Hold(60.0, 30.0), trees=(TreeUse("/tree", "exclusive"),), owner="me@here")
    spec = spec_of("t", "e", wanted, "/leases")
    assert spec["hold"] == {"idle_s": 60.0, "for_s": 30.0}
    assert spec["trees"] == [{"path": "/tree", "mode": "exclusive"}]
    assert (spec["argv"], spec["owner"], spec["lease_dir"]) == ([], "me@here", "/leases")
    assert "hold" not in spec_of("t", "e", Wanted(["true"]), "/leases")


def test_the_owner_is_a_user_and_a_machine() -> None:
    name, at, machine = spec_of("t", "e", Wanted(["true"]), "/l")["owner"].partition("@")
    assert name
    assert at
    assert machine


def test_what_differs_is_named_and_values_are_not_kept() -> None:
    wanted = Wanted(["serve"], env={"API_KEY": "hunter2"}, ports=[1])
    same, changed = identity_parts(HERE, wanted), identity_parts(HERE, replace(wanted, ports=[2]))
    assert [name for name in same if same[name] != changed[name]] == ["ports"]
    assert identity_parts(HERE, replace(wanted, receipt={"at": 1}, env=dict(wanted.env))) == same
    elsewhere = identity_parts(HERE.model_copy(update={"container": "c"}), wanted)
    assert [name for name in same if same[name] != elsewhere[name]] == ["endpoint"]
    assert "hunter2" not in json.dumps(same)


def test_an_identity_of_ones_own_replaces_the_usual_parts() -> None:
    one = Wanted(["serve", "--port", "1"], ports=[1], identity={"model": "m"})
    assert identity_parts(HERE, one) == identity_parts(HERE, replace(one, command=["serve", "--port", "2"], ports=[2]))


def test_records_of_before_still_load(tmp_path: Path) -> None:
    execution_id = "execution-20260101T000000-0123abcd"
    path = tmp_path / "executions" / execution_id / "record.json"
    path.parent.mkdir(parents=True)
    old = {
        "schema": "vaws.execution.v1",
        "execution_id": execution_id,
        "task_id": "t",
        "service": "vllm",
        "endpoint": {"name": "a", "host": "h"},
        "command": ["vllm"],
        "created_at": "2026-01-01T00:00:00.000Z",
        "ended": False,
        "status": {"state": "running"},
    }
    path.write_text(json.dumps(old), "utf-8")
    (record,) = executions(tmp_path)
    assert (record.kind, record.spec_digest, record.name) == ("run", None, "vllm")
    assert find_execution(tmp_path, execution_id) == record
    assert find_execution(tmp_path, "../x") is None


def test_the_queue_says_position_holders_and_since_when() -> None:
    holder = {"execution_id": "execution-1", "owner": "ann@laptop", "since": 0.0}
    waits = [{"logic": 3, "bus_id": "0000:C1:00.0", "holder": holder, "reason": "it is leased"}]
    status = {"state": "queued", "queue": {"position": 2, "since": 61.0, "waiting_for": waits, "ahead": []}}
    assert queue_sentence(status) == (
        "queued at position 2 since 1970-01-01T00:01:01Z: waits for NPU 3, held by ann@laptop (execution-1) "
        "since 1970-01-01T00:00:00Z (it is leased)"
    )
    ahead = {"position": 2, "waiting_for": [], "ahead": [{"number": 1, "owner": None, "execution_id": "execution-1"}]}
    assert queue_sentence({"state": "queued", "queue": ahead}) == "queued at position 2: behind execution-1"
    free = {"position": None, "waiting_for": [{"port": 80, "holder": None}], "ahead": []}
    assert queue_sentence({"state": "queued", "queue": free}) == "queued: waits for port 80"
    inside = {"position": None, "waiting_for": [{"reservation": "execution-2", "holder": None, "reason": "busy"}]}
    assert queue_sentence({"state": "queued", "queue": inside}) == "queued: waits for reservation execution-2 (busy)"
    assert queue_sentence({"state": "queued", "queue": None}) == "queued"
    assert queue_sentence({"state": "running", "queue": None}) is None

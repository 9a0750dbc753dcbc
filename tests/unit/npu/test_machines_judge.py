"""What the answers of a worker make of a machine."""

from __future__ import annotations

from typing import Any

import pytest

from vaws_mcp.core.failures import Failure
from vaws_mcp.npu.machines.judge import judge_cann, judge_leases, judge_npu, judge_vllm
from vaws_mcp.npu.machines.models import MachineCheck
from vaws_mcp.npu.machines.verify import Verified

LOST = Failure("outcome_unknown", "the connection was lost", layer="transport", hint="Try again.")
BARE: dict[str, Any] = {"npu_devices": [], "npu_manager": False, "tools": {"vllm": None}}
WITH_DEVICES: dict[str, Any] = {**BARE, "npu_devices": ["/dev/davinci0"], "npu_manager": True}
MISSING = {"ok": False, "error": {"code": "npu_smi_missing", "message": "no npu-smi", "hint": "Mount it."}}
NO_PACKAGES: dict[str, Any] = dict.fromkeys(("torch-npu", "vllm", "vllm-ascend"))
NO_CANN: dict[str, Any] = dict.fromkeys(("driver", "toolkit", "operators", "nnal"))


def device(npu: int, occupancy: str) -> dict[str, Any]:
    return {"npu": npu, "lease_name": f"npu{npu}c0", "occupancy": occupancy}


def snapshot(*devices: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "error": None, "driver": "24.1", "devices": list(devices)}


def test_no_npu_and_no_sign_of_one_is_no_error() -> None:
    check = judge_npu(MISSING, BARE)
    assert (check.state, check.status) == ("absent", "ready")
    assert "CPU" in check.message


def test_a_missing_npu_smi_beside_devices_needs_repair() -> None:
    check = judge_npu(MISSING, WITH_DEVICES)
    assert (check.state, check.status, check.next) == ("failed", "needs_repair", "Mount it.")


def test_another_failure_of_the_probe_needs_repair_also_without_devices() -> None:
    error = {"code": "driver_timeout", "message": "the driver did not answer", "hint": "Look at dmesg."}
    check = judge_npu({"ok": False, "error": error}, BARE)
    assert (check.status, check.code) == ("needs_repair", "driver_timeout")


def test_devices_are_counted_and_unhealthy_ones_named() -> None:
    fine = judge_npu(snapshot(device(0, "free"), device(1, "occupied")), WITH_DEVICES)
    assert (fine.state, fine.facts["devices"], fine.facts["free"], fine.facts["occupied"]) == ("ok", 2, 1, 1)
    sick = judge_npu(snapshot(device(0, "free"), device(1, "unhealthy")), WITH_DEVICES)
    assert (sick.status, sick.code) == ("needs_repair", "device_unhealthy")
    assert "npu1c0" in sick.message


@pytest.mark.parametrize(
    ("toolkit", "needed", "state", "status"),
    [
        ({"version": "8.5.1", "path": "/x"}, True, "ok", "ready"),
        (None, True, "failed", "needs_repair"),
        (None, False, "absent", "ready"),
        ({"error": "/x: Permission denied"}, True, "failed", "needs_repair"),
        ({"error": "/x: Permission denied"}, False, "unknown", "ready"),
    ],
)
def test_cann_is_needed_where_there_are_devices(toolkit: Any, needed: bool, state: str, status: str) -> None:
    check = judge_cann({"cann": {**NO_CANN, "toolkit": toolkit}}, needed=needed)
    assert (check.state, check.status) == (state, status)
    assert (check.next is None) == (status == "ready")


@pytest.mark.parametrize(
    ("found", "command", "needed", "state"),
    [
        (("vllm", "vllm-ascend"), None, True, "ok"),
        (("vllm",), None, True, "failed"),
        ((), "/bin/vllm", True, "failed"),
        (("vllm",), None, False, "ok"),
        ((), "/bin/vllm", False, "ok"),
        ((), None, False, "absent"),
    ],
)
def test_vllm_is_judged_by_packages_and_command(
    found: tuple[str, ...], command: str | None, needed: bool, state: str
) -> None:
    packages = {**NO_PACKAGES, **{name: {"version": "0.18.0"} for name in found}}
    check = judge_vllm({"packages": packages}, {**BARE, "tools": {"vllm": command}}, needed=needed)
    assert check.state == state
    assert (check.next is None) == (state == "ok")


@pytest.mark.parametrize(("scope", "state"), [("host", "ok"), ("container", "warning"), (None, "unknown")])
def test_the_lease_scope_is_told(scope: str | None, state: str) -> None:
    check = judge_leases({"lease_scope": scope, "lease_scope_why": "as seen"})
    assert (check.state, check.status) == (state, "ready")


def test_what_could_not_be_asked_is_unknown_and_not_absent() -> None:
    for check in (
        judge_npu(LOST, BARE),
        judge_cann(LOST, needed=True),
        judge_vllm(LOST, BARE, needed=True),
        judge_leases(LOST),
    ):
        assert check.state == "unknown"
        assert LOST.message in check.message


def test_the_worst_check_decides_and_the_rest_is_skipped() -> None:
    found = Verified()
    found.add(MachineCheck(check="npu", state="failed", message="sick", status="needs_repair", code="x"))
    found.add(MachineCheck(check="cann", state="ok", message="8.5.1"))
    assert found.status == "needs_repair"
    assert found.first is not None
    assert found.first.check == "npu"
    found.add(MachineCheck(check="host_key", state="failed", message="changed", status="blocked", code="y"))
    assert found.status == "blocked"
    assert [check.state for check in found.listed][-2:] == ["skipped", "skipped"]

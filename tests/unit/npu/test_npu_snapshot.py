"""Probing with a real program: ids are joined, holders found, and every way to fail is said within the bound."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from npu_texts import Chip, chips, id_map, info
from npu_tool import Tool

from vaws_mcp.worker.engine.npu import holders, probe, tool
from vaws_mcp.worker.engine.npu.probe import Snapshot, health_of, snapshot
from vaws_mcp.worker.refusal import Refusal


@pytest.fixture
def fake(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


@pytest.fixture
def on_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "sees_host", lambda: True)


def answer_with(fake: Tool, devices: list[Chip], layout: str = "classic") -> None:
    fake.answers("info", info(layout, devices))
    fake.answers("info -m", id_map(devices, layout))


def code_of(found: Snapshot) -> str:
    assert not found.ok
    assert found.error is not None
    assert found.error["message"]
    assert found.error["hint"]
    assert not [seen for seen in found.devices if seen.free]
    return str(found.error["code"])


@pytest.mark.parametrize("layout", ["classic", "a3", "classic_wide"])
def test_devices_are_joined_with_their_logic_ids(fake: Tool, layout: str) -> None:
    devices = chips(layout)
    answer_with(fake, devices, layout)
    found = snapshot(fake.env)
    assert (found.ok, found.error, found.process_table, found.warnings) == (True, None, "complete", [])
    assert [seen.logic for seen in found.devices] == list(range(len(devices)))
    assert [seen.key for seen in found.devices] == [device.bus for device in devices]
    assert all(seen.free for seen in found.devices)
    assert fake.calls == ["info", "info_-m"]
    json = found.as_json()
    assert json["devices"][0]["lease_name"] == devices[0].bus
    assert json["devices"][0]["occupancy"] == "free"


def test_the_map_is_asked_for_once_by_one_process(fake: Tool) -> None:
    answer_with(fake, chips("classic"))
    assert snapshot(fake.env).ok
    assert snapshot(fake.env).devices[2].logic == 2
    assert fake.calls == ["info", "info_-m", "info"]


def test_without_a_map_devices_have_no_logic_id_and_that_is_said(fake: Tool) -> None:
    fake.answers("info", info("classic", chips("classic")))
    found = snapshot(fake.env)
    assert (found.ok, [seen.logic for seen in found.devices]) == (True, [None] * 3)
    assert any("logic ids are not known" in warning for warning in found.warnings)


def test_a_logic_id_of_two_devices_is_none_of_theirs(fake: Tool) -> None:
    devices = chips("classic")
    fake.answers("info", info("classic", devices))
    rows = id_map(devices).splitlines()
    rows[2] = f"\t{1:<30} {0:<30} {0:<30} Ascend 910B3"
    fake.answers("info -m", "\n".join(rows))
    found = snapshot(fake.env)
    assert [seen.logic for seen in found.devices] == [None, None, 2]
    assert any("several devices" in warning for warning in found.warnings)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of an execution that lives until the test ends."""
    env = {**os.environ, "VAWS_EXECUTION_ID": "exec-7"}
    argv = [sys.executable, "-c", "print(flush=True); input()"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    try:
        assert process.stdout is not None
        process.stdout.readline()  # by now it has its own name and environment
        yield process
    finally:
        process.communicate(b"\n", timeout=10)


@pytest.mark.usefixtures("on_host")
def test_a_holder_has_user_and_execution(fake: Tool, sleeper: subprocess.Popen[bytes]) -> None:
    devices = chips("classic")
    devices[1] = replace(devices[1], processes=((sleeper.pid, "", 700, None),))
    answer_with(fake, devices)
    found = snapshot(fake.env)
    holder = found.devices[1].holders[0]
    assert found.devices[1].occupancy == "occupied"
    assert (holder.pid, holder.local_pid, holder.execution_id) == (sleeper.pid, sleeper.pid, "exec-7")
    assert holder.user
    assert holder.name
    assert found.warnings == []


@pytest.mark.parametrize("same_name", [True, False])
def test_in_a_container_the_container_pid_names_the_holder_if_it_is_the_same_process(
    fake: Tool, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, *, same_name: bool
) -> None:
    monkeypatch.setattr(holders, "sees_host", lambda: False)
    comm = Path(f"/proc/{sleeper.pid}/comm").read_text(encoding="utf-8").strip()
    devices = chips("classic_wide")
    devices[0] = replace(devices[0], processes=((999_999, comm if same_name else "other", 700, sleeper.pid),))
    answer_with(fake, devices, "classic_wide")
    found = snapshot(fake.env)
    holder = found.devices[0].holders[0]
    assert holder.pid == 999_999
    assert holder.execution_id == ("exec-7" if same_name else None)
    assert any("cannot be resolved" in warning for warning in found.warnings) != same_name


def test_in_a_container_without_that_column_no_holder_is_guessed(fake: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "sees_host", lambda: False)
    devices = chips("classic")
    devices[0] = replace(devices[0], processes=((os.getpid(), "python", 700, None),))
    answer_with(fake, devices)
    found = snapshot(fake.env)
    assert found.devices[0].holders[0].local_pid is None
    assert any("pids of the host" in warning for warning in found.warnings)


def test_processes_beyond_the_eighth_come_from_the_other_query(fake: Tool) -> None:
    devices = chips("classic")
    rows = tuple((2_000_000 + number, "python", 10, None) for number in range(8))
    devices[1] = replace(devices[1], processes=rows)
    answer_with(fake, devices)
    listed = "".join(
        f"\tProcess id:{2_000_000 + number:<7} Process name:{'python':<17} Process memory(MB):10\n"
        for number in range(11)
    )
    fake.answers("info -t proc-mem -i 1 -c 0", listed)
    found = snapshot(fake.env)
    assert found.process_table == "maybe_truncated"
    assert len(found.devices[1].holders) == 11
    assert [seen.occupancy for seen in found.devices] == ["free", "occupied", "free"]


@pytest.mark.parametrize("after", ["", "table"])
def test_a_hung_npu_smi_is_killed_at_the_bound(fake: Tool, after: str) -> None:
    fake.hangs("info", info("classic", chips("classic")) if after else "")
    begin = time.monotonic()
    assert code_of(snapshot(fake.env, bound_s=1.0)) == "npu_smi_hang"
    assert time.monotonic() - begin < 5.0
    assert not [line for line in _commands() if str(fake.path) in line]


def _commands() -> list[str]:
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found


def test_a_hung_map_does_not_hide_what_is_known(fake: Tool) -> None:
    fake.answers("info", info("classic", chips("classic")))
    fake.hangs("info -m")
    found = snapshot(fake.env, bound_s=1.5)
    assert found.ok
    assert [seen.logic for seen in found.devices] == [None] * 3


def test_whoever_asks_can_end_the_probe(fake: Tool) -> None:
    fake.hangs("info")
    begin = time.monotonic()

    def check() -> None:
        if time.monotonic() - begin > 0.3:
            raise Refusal("cancelled", "enough")

    with pytest.raises(Refusal, match="enough"):
        snapshot(fake.env, 30.0, check)
    assert time.monotonic() - begin < 4.0
    assert not [line for line in _commands() if str(fake.path) in line]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("dcmi module initialize failed. ret is -8005\n", "driver_unavailable"),
        ("dcmi model initialized failed, because the device is used. ret is -8020\n", "device_occupied"),
        ("npu-smi: error while loading shared libraries: libc_sec.so: cannot open\n", "driver_libs_missing"),
        ("There is no NPU card on this server.\n", "no_npu"),
        ("", "empty"),
        ("what?\n", "unrecognised"),
    ],
)
def test_what_npu_smi_complains_about_is_the_error(fake: Tool, text: str, code: str) -> None:
    fake.complains("info", text)
    assert code_of(snapshot(fake.env)) == code


def test_a_cut_table_is_a_failed_probe(fake: Tool) -> None:
    fake.answers("info", info("classic", chips("classic"))[:-300])
    found = snapshot(fake.env)
    assert code_of(found) == "truncated"
    assert [seen.occupancy for seen in found.devices] == ["unknown"] * 3


def test_npu_smi_is_also_found_beside_the_driver(fake: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(fake, chips("classic"))
    monkeypatch.setattr(tool, "PLACES", (str(fake.folder),))
    assert snapshot({"PATH": "/usr/bin:/bin"}).ok


def test_the_libraries_of_the_driver_are_added(tmp_path: Path, fake: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tool.LIBRARIES:
        (tmp_path / "driver" / name).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(tool, "DRIVER", str(tmp_path / "driver"))
    fake.path.write_text('#!/bin/sh\nprintf \'%s\' "$LD_LIBRARY_PATH" > "$(dirname "$0")/libraries"\n')
    snapshot({**fake.env, "LD_LIBRARY_PATH": "/opt/mine"})
    folders = (tmp_path / "libraries").read_text().split(":")
    assert folders == ["/opt/mine", *(str(tmp_path / "driver" / name) for name in tool.LIBRARIES)]


def test_a_program_that_may_not_be_executed_is_a_matter_of_permission(fake: Tool) -> None:
    fake.path.chmod(0o644)
    assert code_of(snapshot(fake.env)) == "npu_smi_permission"


def test_a_program_that_is_not_there_is_missing(tmp_path: Path) -> None:
    found = snapshot({"PATH": str(tmp_path)})
    assert code_of(found) == "npu_smi_missing"
    (tmp_path / "npu-smi").mkdir()
    assert code_of(snapshot({"PATH": str(tmp_path)})) == "npu_smi_missing"


def test_a_program_of_another_machine_is_said_to_be_one(fake: Tool) -> None:
    fake.path.write_bytes(b"\x7fELF" + b"\0" * 60)
    assert code_of(snapshot(fake.env)) == "npu_smi_wrong_arch"


HEALTH = "\tNPU ID : {npu}\n\tChip Count : 1\n\n\tHealth Status : {health}\n\tError Code : {code}\n\tChip ID : 0\n"


def test_health_is_asked_for_and_falls_back_to_the_table(fake: Tool) -> None:
    devices = chips("classic")
    devices[2] = replace(devices[2], health="Warning")
    answer_with(fake, devices)
    fake.answers("info -t health -i 0", HEALTH.format(npu=0, health="OK", code="NA"))
    fake.answers("info -t health -i 1", HEALTH.format(npu=1, health="Alarm", code="80E01801"))
    found = health_of(snapshot(fake.env).devices, fake.env)
    assert [found[device.bus] for device in devices] == [
        {"health": "OK", "error_codes": [], "ok": True, "source": "query"},
        {"health": "Alarm", "error_codes": ["80E01801"], "ok": False, "source": "query"},
        {"health": "Warning", "error_codes": None, "ok": False, "source": "table"},
    ]


def test_the_bound_is_the_one_of_the_contract() -> None:
    assert probe.BOUND_S == 30.0

"""The tables of npu-smi info: every layout is read, and nothing but a whole text ever shows a free device."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from npu_texts import SHAPES, Chip, chips, family, info

from vaws_mcp.worker.facts.npu.parse import parse
from vaws_mcp.worker.facts.npu.report import Report

EVERY_CUT = os.environ.get("VAWS_LONG_TESTS") == "1"
every_layout = pytest.mark.parametrize("layout", sorted(SHAPES))
BUSY = ((4242, "VLLMWorker_TP", 40000, 77), (4243, "", 132, None))


def free(text: str) -> set[tuple[int, int | None]]:
    report = parse(text)
    pairs = zip(report.devices, report.judged, strict=True)
    return {(device.npu, device.chip) for device, verdict in pairs if verdict.occupancy == "free"}


def occupancies(report: Report) -> list[str]:
    return [verdict.occupancy for verdict in report.judged]


def busy_machine(layout: str) -> list[Chip]:
    devices = chips(layout)
    devices[1] = replace(devices[1], used=45000 if family(layout) != "310p" else 1852, processes=BUSY)
    return devices


@every_layout
def test_an_idle_machine_is_free_and_every_field_is_read(layout: str) -> None:
    devices = chips(layout)
    report = parse(info(layout, devices))
    assert (report.error, report.layout, report.driver) == (None, family(layout), "25.2.0")
    assert report.process_table == "complete"
    assert occupancies(report) == ["free"] * len(devices)
    for number, (seen, made) in enumerate(zip(report.devices, devices, strict=True)):
        assert (seen.npu, seen.chip, seen.name, seen.health) == (made.npu, made.chip, made.name, "OK")
        assert (seen.bus_id, seen.key) == (made.bus, made.bus)
        assert (seen.hbm_used_mb, seen.hbm_total_mb, seen.temp_c, seen.util_pct) == (made.used, 65536, 34, 0)
        assert seen.power_w == (None if made.chip or family(layout) == "310p" else 90.1)
        assert seen.phy == (number if family(layout) == "a3" else None)
        assert seen.logic == (number if family(layout) == "310p" else None)


@every_layout
def test_a_device_with_processes_is_occupied_by_them(layout: str) -> None:
    report = parse(info(layout, busy_machine(layout)))
    assert occupancies(report)[1] == "occupied"
    assert occupancies(report).count("free") == len(report.devices) - 1
    found = report.devices[1].processes
    assert [(one.pid, one.name, one.memory_mb) for one in found] == [(4242, "VLLMWorker_TP", 40000), (4243, None, 132)]
    assert [one.container_pid for one in found] == ([77, None] if SHAPES[layout].container else [None, None])
    assert "4242 (VLLMWorker_TP), 4243" in report.judged[1].reason


@every_layout
def test_no_beginning_of_a_text_shows_a_device_free_that_the_whole_does_not(layout: str) -> None:
    text = info(layout, busy_machine(layout))
    whole = free(text)
    assert whole
    for end in range(0, len(text), 1 if EVERY_CUT else 3):
        assert free(text[:end]) <= whole


@every_layout
def test_a_text_that_ends_before_the_last_card_is_accounted_for_shows_no_device_free(layout: str) -> None:
    text = info(layout, chips(layout))
    cuts = [match.start() for match in re.finditer(r"No running processes found in NPU \d+ +\|", text)]
    for cut in [*cuts, text.rindex("|") + 1]:
        report = parse(text[:cut])
        assert report.error is not None
        assert report.error.code == "truncated"
        assert "free" not in occupancies(report)


@pytest.mark.parametrize("layout", ["classic", "a3", "a5"])
def test_without_a_process_table_nothing_is_free(layout: str) -> None:
    text = info(layout, chips(layout))
    report = parse(text[: text.index("Process id")].rpartition("\n")[0] + "\n")
    assert report.error is not None
    assert report.error.code == "truncated"
    assert set(occupancies(report)) == {"unknown"}


def test_a_310_without_a_process_table_is_no_failure_but_not_free_either() -> None:
    text = info("310p", chips("310p"))
    lines = text.splitlines()
    heading = next(number for number, line in enumerate(lines) if "Process id" in line)
    report = parse("\n".join(lines[: heading - 1]))
    assert (report.error, report.process_table) == (None, "missing")
    assert set(occupancies(report)) == {"unknown"}


@pytest.mark.parametrize("health", ["Warning", "Alarm", "Critical", "UNKNOWN", "NA"])
def test_an_unhealthy_device_is_never_free(health: str) -> None:
    devices = chips("classic")
    devices[0] = replace(devices[0], health=health)
    report = parse(info("classic", devices))
    assert occupancies(report) == ["unknown" if health in ("UNKNOWN", "NA") else "unhealthy", "free", "free"]
    assert report.devices[0].health == (None if health == "NA" else health)


def test_memory_that_nobody_is_seen_to_hold_occupies_a_device() -> None:
    devices = chips("classic")
    devices[2] = replace(devices[2], used=60538)
    report = parse(info("classic", devices))
    assert occupancies(report) == ["free", "free", "occupied"]
    assert "60538 MB" in report.judged[2].reason


@pytest.mark.parametrize("used", [None, 3636])
def test_a_device_is_free_only_when_its_memory_is_known_to_be_idle(used: int | None) -> None:
    devices = [replace(chips("classic")[0], used=used)]
    assert not free(info("classic", devices))


def test_an_unknown_product_is_not_free() -> None:
    report = parse(info("classic", [replace(chips("classic")[0], name="920X", used=10)]))
    assert occupancies(report) == ["unknown"]
    assert "920X" in report.judged[0].reason


@pytest.mark.parametrize("name", ["910B4-1", "910B2C", "Ascend 910B3", "910B3-a-name-of-more-than-twenty"])
def test_names_with_blanks_hyphens_and_any_length_are_read(name: str) -> None:
    report = parse(info("classic", [replace(chips("classic")[0], name=name)]))
    assert (report.devices[0].name, occupancies(report)) == (name, ["free"])


def test_eight_rows_of_one_chip_may_be_cut_and_say_nothing_about_other_chips() -> None:
    devices = chips("a3")
    rows = tuple((1000 + number, "python", 500, None) for number in range(8))
    devices[0] = replace(devices[0], used=7000, processes=rows)
    report = parse(info("a3", devices))
    assert report.process_table == "maybe_truncated"
    assert occupancies(report) == ["occupied", "free", "free", "free", "free", "free"]


def test_a_process_name_may_hold_blanks_and_pipes() -> None:
    devices = [replace(chips("classic")[0], processes=((7, "/opt/a b|c", 99, None),))]
    assert parse(info("classic", devices)).devices[0].processes[0].name == "/opt/a b|c"


def test_a_process_of_a_card_that_the_device_table_lacks_shows_that_text_is_missing() -> None:
    text = info("classic", chips("classic"))
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| 0 "))
    assert not free("\n".join([*lines[:first], *lines[first + 3 :]]))


def test_a_bus_id_that_is_not_there_is_replaced_by_the_place_of_the_chip() -> None:
    report = parse(info("a5", [replace(chips("a5")[0], bus="NA")]))
    assert (report.devices[0].bus_id, report.devices[0].key) == (None, "npu0c0")
    assert occupancies(report) == ["free"]


def test_two_devices_with_the_same_bus_id_are_not_free() -> None:
    devices = [replace(device, bus="0000:01:00.0") for device in chips("classic", 2)]
    assert not free(info("classic", devices))


def test_a_table_without_devices_says_so() -> None:
    report = parse(info("classic", []))
    assert report.error is not None
    assert report.error.code == "no_npu"


def test_of_two_tables_the_last_is_shown_and_free_is_what_is_free_in_both() -> None:
    idle, busy = info("classic", chips("classic")), info("classic", busy_machine("classic"), "26.1.0")
    for text in (idle + busy, busy + idle):
        assert free(text) == {(0, 0), (2, 0)}
    report = parse(idle + busy)
    assert report.driver == "26.1.0"
    assert any("2 tables" in warning for warning in report.warnings)
    assert not free(idle + busy[:-200])


def test_a_warning_of_npu_smi_is_kept() -> None:
    tail = "[WARNING]The driver package may not be completely installed."
    report = parse(info("classic", chips("classic")) + tail + "\n")
    assert (report.warnings, occupancies(report)) == ([tail], ["free"] * 3)


def test_a_failure_beside_a_table_leaves_nothing_free() -> None:
    report = parse(info("classic", chips("classic")) + "dcmi module initialize failed. ret is -8005\n")
    assert report.error is not None
    assert report.error.code == "driver_unavailable"
    assert set(occupancies(report)) == {"unknown"}


MOTD = "Welcome to a machine\nAuthorized users only...\n"
HARMLESS: list[Callable[[str], str]] = [
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text.replace("\n", "\r\r\n"),
    lambda text: text.replace("\n", "   \n"),
    lambda text: "\ufeff" + text,
    lambda text: MOTD + text,
    lambda text: text + "\nLast login: now\n",
    lambda text: text + text,
    lambda text: re.sub("OK", "\x1b[1;32mOK\x1b[0m", text),
    lambda text: "\x1b]0;title\x07\x1b[2J" + text,
    lambda text: text.replace("\n+", "\nsudo: unable to resolve host\n+", 3),
]


@settings(max_examples=200 if EVERY_CUT else 60, deadline=None)
@given(layout=st.sampled_from(sorted(SHAPES)), changes=st.lists(st.sampled_from(HARMLESS), max_size=4))
def test_what_terminals_and_logins_add_changes_nothing(layout: str, changes: list[Callable[[str], str]]) -> None:
    text = info(layout, busy_machine(layout))
    whole = free(text)
    for change in changes:
        text = change(text)
    assert free(text) == whole


@settings(max_examples=1500 if EVERY_CUT else 250, deadline=None)
@given(data=st.data(), layout=st.sampled_from(sorted(SHAPES)))
def test_lines_left_out_and_cut_rows_never_make_a_busy_device_free(data: st.DataObject, layout: str) -> None:
    lines = info(layout, busy_machine(layout)).splitlines()
    whole = free("\n".join(lines))
    start = data.draw(st.integers(0, len(lines) - 1))
    count = data.draw(st.integers(0, len(lines)))
    gap = data.draw(st.sampled_from([["..."], ["| ...  |"], ["[... 9 lines]"], ["\u2026"]]))
    mended = [*lines[:start], *gap, *lines[start + count :]]
    assert not free("\n".join(mended))
    silent = [*lines[:start], *lines[start + count :]]
    assert free("\n".join(silent)) <= whole
    width = data.draw(st.integers(1, 110))
    assert free("\n".join(line[:width] for line in lines)) <= whole
    folded = [line[at : at + width] for line in lines for at in range(0, len(line), width)]
    assert free("\n".join(folded)) <= whole


@settings(max_examples=1500 if EVERY_CUT else 250, deadline=None)
@given(text=st.text(alphabet="|+-=. \nNPU0123456789OK/\t\x1b[mChipBus-IdHealthProcess", max_size=300))
def test_no_text_makes_the_parser_fail(text: str) -> None:
    for kind in (None, "info", "map", "list", "health", "usages", "proc-mem", "memory"):
        report = parse(text, kind)
        assert report.as_json()["kind"] in (None, "info", "map", "list", "health", "usages", "proc-mem", "memory")
        assert "free" not in occupancies(report)


def test_a_frame_of_a_login_before_the_table_changes_nothing() -> None:
    text = info("classic", chips("classic"))
    assert free("+-----+\n| hi  |\n| not a whole row\n+-----+\n" + text) == free(text)

"""The other answers of npu-smi info: -m, -l and -t; and what it says when it fails."""

from __future__ import annotations

import pytest
from npu_texts import chips, id_map

from vaws_mcp.worker.facts.npu.failures import HINTS, find, from_dcmi
from vaws_mcp.worker.facts.npu.parse import parse

HEALTH_OF_TWO = """\tNPU ID                         : 3
\tChip Count                     : 2

\tHealth Status                  : OK
\tError Code                     : NA
\tError Information              : NA
\tChip ID                        : 0

\tHealth Status                  : Alarm
\tError Code                     : 80E01801, 0x80CB8009
\tError Information              : node type=SOC: over
\tChip ID                        : 1
"""


def code_of(text: str, kind: str | None = None) -> str | None:
    error = parse(text, kind).error
    return None if error is None else error.code


@pytest.mark.parametrize("layout", ["classic", "a3"])
def test_the_map_gives_logic_and_physical_ids(layout: str) -> None:
    devices = chips(layout)
    report = parse(id_map(devices, layout))
    assert report.error is None
    assert report.map is not None
    assert [(row.npu, row.chip, row.logic) for row in report.map] == [
        (device.npu, device.chip, number) for number, device in enumerate(devices)
    ]
    assert [row.phy for row in report.map] == [number if layout == "a3" else None for number in range(len(devices))]
    assert {row.name for row in report.map} == {f"Ascend {devices[0].name}"}


def test_other_parts_than_chips_are_left_out_of_the_map() -> None:
    text = id_map(chips("a3", 1), "a3")
    extra = "\t" + " ".join(f"{cell:<30}" for cell in ("0", "2", "-", "-", "Mcu")) + "\n"
    assert parse(text + extra).map == parse(text).map


def test_a_map_without_rows_is_not_whole() -> None:
    assert code_of(id_map([])) == "truncated"


def test_the_list_gives_cards_and_their_chips() -> None:
    text = "\tCard Count : 2\n\n\tNPU ID : 0\n\tChip Count : 2\n\n\tNPU ID : 32768\n\tChip Count : 1\n"
    report = parse(text)
    assert (report.kind, report.error) == ("list", None)
    assert report.facts == {"total": 2, "npus": [{"npu": 0, "chips": 2}, {"npu": 32768, "chips": 1}]}
    assert code_of(text.replace("Card Count : 2", "Card Count : 3")) == "truncated"


def test_health_is_read_for_each_chip_and_the_worst_is_said() -> None:
    report = parse(HEALTH_OF_TWO)
    assert (report.kind, report.error) == ("health", None)
    assert report.facts["npu"] == 3
    assert report.facts["health"] == "Alarm"
    assert report.facts["error_codes"] == ["80E01801", "0x80CB8009"]
    assert report.facts["chips"]["0"] == {"health": "OK", "error_codes": []}
    assert code_of(HEALTH_OF_TWO[: HEALTH_OF_TWO.rindex("\tChip ID")]) == "truncated"


def test_a_health_that_is_not_known_outranks_good_ones() -> None:
    report = parse(HEALTH_OF_TWO.replace("Alarm", "UNKNOWN"))
    assert report.facts["health"] == "UNKNOWN"


def test_a_chip_id_before_its_block_is_understood() -> None:
    text = "\tNPU ID : 0\n\tChip Count : 2\n\n\tChip ID : 0\n\tHealth : OK\n\n\tChip ID : 1\n\tHealth : Warning\n"
    chips_seen = parse(text).facts["chips"]
    assert [chips_seen[chip]["health"] for chip in ("0", "1")] == ["OK", "Warning"]


def test_processes_are_read_with_and_without_names() -> None:
    text = (
        "\tNPU ID : 1\n\tChip Count : 1\n\nGet pid name failed.\n"
        "\tProcess id:3229095 Process name:                  Process memory(MB):48208\n"
        "\tProcess id:12      Process name:a b               Process memory(MB):5\n\tChip ID : 0\n"
    )
    report = parse(text)
    assert (report.kind, report.error) == ("proc-mem", None)
    assert report.facts["chips"]["0"] == [
        {"pid": 3229095, "name": None, "mem_mb": 48208},
        {"pid": 12, "name": "a b", "mem_mb": 5},
    ]


def test_usages_that_are_not_printed_are_not_known() -> None:
    text = "\tNPU ID : 0\n\tChip Count : 1\n\n\tAicore Usage Rate(%) : 7\n\tChip ID : 0\n"
    assert parse(text).facts["chips"]["0"] == {
        "hbm_total_mb": None,
        "hbm_pct": None,
        "aicore_pct": 7,
        "npu_util_pct": None,
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty"),
        (" \r\n", "empty"),
        ("hello", "unrecognised"),
        ("sh: 1: npu-smi: not found", "npu_smi_missing"),
        ("bash: /usr/local/bin/npu-smi: No such file or directory", "npu_smi_missing"),
        ("npu get board type failed. ret is -9005", "dcmi_failed"),
        ("Failed to execute npu-smi info. ret is -8006.", "driver_timeout"),
        ("This device does not exist", "device_not_exist"),
        ("This device does not support querying product.", "not_supported"),
        ("dcmi module initialize failed.", "driver_unavailable"),
        ("| npu-smi 25.2.0          Version: 25.2.0     |", "truncated"),
    ],
)
def test_a_failure_has_a_code_and_says_what_to_do(text: str, code: str) -> None:
    assert code_of(text) == code
    assert code in HINTS


@pytest.mark.parametrize(("number", "status"), [(8005, 187), (8020, 172), (9005, 211), (8008, 184), (8255, 193)])
def test_the_exit_status_is_the_lowest_bits_of_the_code(number: int, status: int) -> None:
    assert from_dcmi(number).exit_code == status
    found = find([f"dcmi model initialized failed. ret is -{number}"])
    assert found is not None
    assert found.exit_code == status
    assert found.hint


@pytest.mark.parametrize("kind", ["info", "map", "list", "health", "usages", "proc-mem", "memory"])
def test_text_of_another_kind_than_said_is_refused(kind: str) -> None:
    assert code_of("hello", kind) is not None

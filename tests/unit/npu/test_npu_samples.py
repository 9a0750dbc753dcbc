"""The recorded samples: every field as expected, every device judged right, and no beginning of one misleads."""

from __future__ import annotations

import pytest
from npu_samples import EXPECTED, NAMES, differences, needs_samples, path_of, text_of

from vaws_mcp.worker.facts.npu.parse import parse

pytestmark = needs_samples

# Positions of the devices that are not free, by sample; what is not listed is free.
NOT_FREE: dict[str, dict[int, str]] = {
    "env_motd_prefix": {0: "occupied", 1: "occupied", 4: "occupied"},
    "info_310p_sparse_ids_25.2.0": {2: "occupied"},
    "info_910prob_ddr_24.1.0": {},
    "info_a2_blank_name_25.2.0": {2: "occupied"},
    "info_a2_busy_24.1.rc3": {0: "occupied", 1: "occupied", 4: "occupied"},
    "info_a2_hbm_held_no_process_23.0.6": {2: "occupied"},
    "info_a2_idle_25.2.0": {},
    "info_a2_legacy_global_idle": {},
    "info_a2_single_visible_npu6": {},
    "info_a2_unhealthy_warning_tail": {3: "unhealthy", 6: "unhealthy"},
    "info_a2_wide_26.1.0": {0: "occupied"},
    "info_a3_busy_tp4_25.5.0": {0: "occupied", 1: "occupied", 2: "occupied", 3: "occupied"},
    "info_a3_doc_phy_repeated": {},
    "info_a3_idle_25.2.3": {},
    "info_a5_950pr_25.7.rc1": {0: "occupied", 3: "occupied"},
}


def free(text: str) -> set[str]:
    report = parse(text)
    pairs = zip(report.devices, report.judged, strict=True)
    return {device.key for device, verdict in pairs if verdict.occupancy == "free"}


def test_there_are_forty_samples_with_an_expectation_each() -> None:
    assert len(NAMES) == 40
    assert all(path_of(name).is_file() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_read_as_expected(name: str) -> None:
    assert differences(name, parse(text_of(name)).as_json()) == {}


@pytest.mark.parametrize("name", NAMES)
def test_the_kind_of_a_sample_can_be_given_as_well_as_seen(name: str) -> None:
    seen = parse(text_of(name))
    if seen.kind is not None:
        assert parse(text_of(name), seen.kind) == seen


@pytest.mark.parametrize("name", sorted(NOT_FREE))
def test_every_device_of_a_sample_is_judged_right(name: str) -> None:
    report = parse(text_of(name))
    occupancies = [verdict.occupancy for verdict in report.judged]
    assert occupancies == [NOT_FREE[name].get(position, "free") for position in range(len(report.devices))]
    assert all(verdict.reason.endswith(".") for verdict in report.judged)


def test_all_samples_with_devices_have_an_expectation_of_occupancy() -> None:
    assert set(NOT_FREE) == {name for name in NAMES if "devices" in EXPECTED[name]}
    cut = parse(text_of("env_truncated_mid_row"))
    assert [verdict.occupancy for verdict in cut.judged].count("free") == 0


@pytest.mark.parametrize("name", NAMES)
def test_no_beginning_of_a_sample_shows_a_device_free_that_the_whole_does_not(name: str) -> None:
    text = text_of(name)
    whole = free(text)
    for end in range(len(text)):
        found = free(text[:end])
        assert not found or found <= whole, end

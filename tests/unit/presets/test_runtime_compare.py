"""All of a profile must match; what differs, is missing or cannot be seen is told apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_facts import REPO, SHA, image, shipped, tree, version

from vaws_mcp.presets.runtime.compare import TREE, Item, commit_in, compare, nearest, why_another_build
from vaws_mcp.presets.runtimes import shipped_profiles

Facts = dict[str, Any]


def judged(facts: Facts, component: str) -> Item:
    item = compare(shipped(), facts).item(component)
    assert item is not None
    return item


def test_an_image_with_all_versions_has_the_profile() -> None:
    comparison = compare(shipped(), image())
    assert comparison.whole
    assert [item.component for item in comparison.items] == [
        *("python", "cann toolkit", "cann operators", "cann nnal"),
        *("torch", "torch-npu", "triton-ascend", "vllm", "vllm-ascend", TREE),
    ]


CHANGES: list[tuple[str, tuple[str, str], Any, str]] = [
    ("python", ("python", ""), version("3.12.1"), "mismatch"),
    ("python", ("python", ""), {"error": "broken"}, "unreadable"),
    ("cann toolkit", ("cann", "toolkit"), version("8.5.0"), "mismatch"),
    ("cann nnal", ("cann", "nnal"), None, "missing"),
    ("cann operators", ("cann", "operators"), {"error": "Permission denied"}, "unreadable"),
    ("torch", ("packages", "torch"), version("2.9.0"), "mismatch"),
    ("torch", ("packages", "torch"), version("2.9.0+cu128"), "mismatch"),
    ("torch-npu", ("packages", "torch-npu"), version("2.9.0.post2"), "mismatch"),
    ("vllm", ("packages", "vllm"), version("0.18.0"), "mismatch"),
    ("vllm", ("packages", "vllm"), None, "missing"),
    ("vllm-ascend", ("packages", "vllm-ascend"), None, "missing"),
    ("vllm-ascend", ("packages", "vllm-ascend"), version("0.1.dev1+g72dc68974"), "mismatch"),
    (TREE, ("editable", "vllm-ascend"), tree("b" * 40), "mismatch"),
    (TREE, ("editable", "vllm-ascend"), {"error": "not a git repository"}, "unreadable"),
    (TREE, ("editable", "vllm-ascend"), None, "missing"),
]


@pytest.mark.parametrize(("component", "place", "value", "status"), CHANGES)
def test_one_difference_is_enough(component: str, place: tuple[str, str], value: Any, status: str) -> None:
    facts = image()
    if place[1]:
        facts[place[0]][place[1]] = value
    else:
        facts[place[0]] = value
    comparison = compare(shipped(), facts)
    assert not comparison.whole
    assert [item.component for item in comparison.items if item.status != "match"] == [component]
    assert judged(facts, component).status == status


def test_uncommitted_changes_are_told() -> None:
    facts = image()
    facts["editable"]["vllm-ascend"] = tree(changes=3)
    assert judged(facts, TREE).note == f"{REPO}, 3 uncommitted changes"


@pytest.mark.parametrize(
    ("found", "status"),
    [
        ("0.1.dev1+g72dc68973.d20260729", "match"),
        ("0.1.dev1+g72dc689", "match"),
        (f"0.18.0rc1+g{SHA}", "match"),
        ("0.18.0rc1+G72DC68973", "match"),
        ("0.18.0rc1+cpu.g72dc68973", "match"),
        ("0.1.dev1+g72dc68972", "mismatch"),
        (f"0.1+g{SHA}0", "unreadable"),
        ("0.1.dev1+g72dc68", "unreadable"),
        ("0.18.0rc1", "unreadable"),
    ],
)
def test_the_commit_is_read_from_the_version(found: str, status: str) -> None:
    facts = image()
    facts["packages"]["vllm-ascend"] = {**version(found), "editable": None}
    facts["editable"] = {}
    assert judged(facts, "vllm-ascend").status == status


@pytest.mark.parametrize(("commit", "status"), [(SHA, "match"), ("b" * 40, "mismatch")])
def test_a_version_without_commit_is_judged_by_the_tree_it_is_installed_from(commit: str, status: str) -> None:
    facts = image()
    facts["packages"]["vllm-ascend"]["version"] = "0.18.0rc1"
    facts["editable"]["vllm-ascend"] = tree(commit)
    assert judged(facts, "vllm-ascend").status == status


@given(st.text("0123456789abcdef", min_size=1, max_size=45))
def test_a_prefix_counts_from_seven_digits_on(digits: str) -> None:
    assert commit_in(f"0.1.dev1+g{digits}.d20260729") == (digits if 7 <= len(digits) <= 40 else None)


@given(st.integers(0, 40))
def test_every_prefix_of_the_commit_that_is_long_enough_matches(length: int) -> None:
    facts = image()
    facts["packages"]["vllm-ascend"] = {**version(f"0.1+g{SHA[:length]}"), "editable": None}
    facts["editable"] = {}
    assert (judged(facts, "vllm-ascend").status == "match") == (length >= 7)


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        ("2.9.0+cpu", "2.9.0+cpu", True),
        ("2.9.0+cpu", "2.9.0+CPU", True),
        ("2.9.0", "v2.9.0", True),
        ("2.9.0+a_b", "2.9.0+a.b", True),
        ("2.9.0+cpu", "2.9.0", False),
        ("2.9.0", "2.9.0+cpu", False),
        ("0.18.0+empty", "0.18.0", False),
        ("2.9.0.post2", "2.9.0", False),
        ("3.2.0.dev20260322", "3.2.0", False),
    ],
)
def test_the_build_behind_the_plus_counts(wanted: str, found: str, same: bool) -> None:
    assert (why_another_build(wanted, found) is None) == same


def test_the_nearest_profile_is_the_one_with_most_matches() -> None:
    facts = image()
    best = nearest([compare(profile, facts) for profile in shipped_profiles()])
    assert best is not None
    assert best.profile.name == "v0.18.0-cann8.5.1"
    for part in ("toolkit", "operators", "nnal"):
        facts["cann"][part] = version("9.0.0")
    best = nearest([compare(profile, facts) for profile in shipped_profiles()])
    assert best is not None
    assert (best.profile.name, best.whole) == ("v0.18.0-cann8.5.1", False)
    facts["python"] = version("3.11.6")
    facts["packages"]["torch-npu"] = version("2.9.0.post2")
    best = nearest([compare(profile, facts) for profile in shipped_profiles()])
    assert best is not None
    assert best.profile.name == "v0.18.0-cann9.0.0"
    assert nearest([]) is None

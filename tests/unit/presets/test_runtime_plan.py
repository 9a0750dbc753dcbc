"""A plan is exactly the commands that are carried out; what no command can change is an obstacle."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime_facts import PYTHON, REPO, SHA, image, shipped, version

from vaws_mcp.presets.runtime.apply import changed_since
from vaws_mcp.presets.runtime.compare import compare
from vaws_mcp.presets.runtime.plan import Choices, Plan, Surroundings, VllmTree, clean_steps, make_plan, shown
from vaws_mcp.presets.runtime.remotes import canonical, expected_remote
from vaws_mcp.presets.runtimes import RuntimeProfile

Facts = dict[str, Any]

WHEELS = "/root/.vaws/wheels"
HASH = "ab" * 32
NPU_WHEEL = "torch_npu-2.9.0-cp311-cp311-manylinux_2_28_aarch64.whl"
PIP = f"{PYTHON} -m pip"
EDITABLE = "install --no-input --disable-pip-version-check --verbose --no-build-isolation --no-deps --editable"
PINS = "torch==2.9.0+cpu torch-npu==2.9.0 triton-ascend==3.2.0.dev20260322"
GIT = f"git -C {REPO} -c safe.directory={REPO} -c core.fsmonitor=false -c core.hooksPath=/dev/null"


def inspected(**more: Any) -> Facts:
    artifacts = [
        {"path": "build", "directory": True},
        {"path": "vllm_ascend/vllm_ascend_C.cpython-311.so", "directory": False},
    ]
    remotes = {
        "origin": "git@github.com:someone/vllm-ascend.git",
        "upstream": "https://github.com/vllm-project/vllm-ascend",
    }
    return {"repo": REPO, "commit": SHA, "remotes": remotes, "artifacts": artifacts, **more}


def around(**more: Any) -> Surroundings:
    vllm = VllmTree("/vllm-workspace/vllm", "a" * 40, "v0.18.0", "a" * 40)
    return replace(Surroundings(PYTHON, WHEELS, inspected(), vllm), **more)


def plan_for(facts: Facts, choices: Choices | None = None, profile: RuntimeProfile | None = None, **more: Any) -> Plan:
    return make_plan(compare(profile or shipped(), facts), around(**more), choices or Choices())


def commands(plan: Plan) -> list[str]:
    return [step.command for step in plan.steps]


CLEAN = f"{GIT} --literal-pathspecs clean -ffdx -- build vllm_ascend/vllm_ascend_C.cpython-311.so"
BUILD = f"{PIP} {EDITABLE} {REPO}"


def test_an_image_that_has_it_all_gets_an_empty_plan() -> None:
    plan = plan_for(image())
    assert (plan.steps, plan.obstacles) == ([], [])


def test_a_rebuild_can_be_asked_for() -> None:
    plan = plan_for(image(), Choices(rebuild=True))
    assert commands(plan) == [CLEAN, BUILD]
    assert plan.steps[0].paths == (f"{REPO}/build", f"{REPO}/vllm_ascend/vllm_ascend_C.cpython-311.so")
    assert plan.obstacles == []


def test_a_changed_pin_is_installed_and_everything_built_anew() -> None:
    facts = image()
    facts["packages"]["torch-npu"] = None
    plan = plan_for(facts)
    assert commands(plan) == [f"{PIP} install --no-input --disable-pip-version-check {PINS}", CLEAN, BUILD]
    assert [shlex.split(step.command) for step in plan.steps] == [list(step.argv) for step in plan.steps]
    assert [step.timeout_s for step in plan.steps] == [3600, 600, 7200]


def test_named_wheels_are_fetched_and_checked_first() -> None:
    wheel = {"url": f"https://example.org/{NPU_WHEEL}", "sha256": HASH}
    profile = RuntimeProfile.model_validate({**shipped().model_dump(by_alias=True), "wheels": [wheel]})
    facts = image()
    facts["packages"]["torch-npu"] = version("2.8.0")
    plan = plan_for(facts, profile=profile)
    path = f"{WHEELS}/{HASH}/{NPU_WHEEL}"
    download = "download --no-input --disable-pip-version-check --no-deps --dest"
    pins = PINS.replace("torch-npu==2.9.0", path)
    assert commands(plan) == [
        f"{PIP} {download} {WHEELS}/{HASH} 'https://example.org/{NPU_WHEEL}#sha256={HASH}'",
        f"sha256sum --check --strict <<< '{HASH}  {path}'",
        f"{PIP} install --no-input --disable-pip-version-check {pins}",
        CLEAN,
        BUILD,
    ]
    assert plan.steps[0].paths == (path,)
    assert plan.steps[1].stdin == f"{HASH}  {path}\n"


def test_a_wheel_that_lies_on_the_endpoint_is_only_checked() -> None:
    wheel = {"url": f"/mnt/{NPU_WHEEL}", "sha256": HASH}
    profile = RuntimeProfile.model_validate({**shipped().model_dump(by_alias=True), "wheels": [wheel]})
    facts = image()
    facts["packages"]["torch-npu"] = None
    plan = plan_for(facts, Choices(find_links=("/mnt",), offline=True), profile)
    pins = PINS.replace("torch-npu==2.9.0", f"/mnt/{NPU_WHEEL}")
    flags = "--no-input --disable-pip-version-check --no-index --find-links /mnt"
    assert commands(plan)[:2] == [
        f"sha256sum --check --strict <<< '{HASH}  /mnt/{NPU_WHEEL}'",
        f"{PIP} install {flags} {pins}",
    ]


def test_a_vllm_without_kernels_is_built_from_its_tree() -> None:
    facts = image()
    facts["packages"]["vllm"] = version("0.18.0")
    build = f"VLLM_TARGET_DEVICE=empty {PIP} {EDITABLE} /vllm-workspace/vllm"
    plan = plan_for(facts)
    assert commands(plan) == [build, CLEAN, BUILD]
    assert plan.steps[0].env == {"VLLM_TARGET_DEVICE": "empty"}
    assert plan.trees == ["/vllm-workspace/vllm", REPO]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (VllmTree("/v", None, "v0.18.0", None), "there is none at /v"),
        (VllmTree("/v", "b" * 40, "v0.18.0", "a" * 40), "stands at bbbbbbbbbbbb and not at v0.18.0 (aaaaaaaaaaaa)"),
        (VllmTree("/v", "b" * 40, "v0.18.0", None), "v0.18.0 (which it does not have)"),
    ],
)
def test_a_vllm_tree_at_another_tag_is_an_obstacle(tree: VllmTree, said: str) -> None:
    facts = image()
    facts["packages"]["vllm"] = None
    assert said in plan_for(facts, vllm_tree=tree).obstacles[0]


def test_offline_it_is_installed_from_a_wheel() -> None:
    facts = image()
    facts["packages"]["vllm"] = None
    plan = plan_for(facts, Choices(find_links=("/w", "/x"), offline=True))
    flags = "--no-input --disable-pip-version-check --no-index --find-links /w --find-links /x"
    assert commands(plan)[0] == f"{PIP} install {flags} {PINS} vllm==0.18.0+empty"


@pytest.mark.parametrize(
    ("component", "place"),
    [("cann toolkit", ("cann", "toolkit")), ("cann nnal", ("cann", "nnal")), ("python", ("python",))],
)
def test_what_no_command_can_change_is_an_obstacle(component: str, place: tuple[str, ...]) -> None:
    facts = image()
    inner = facts
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = version("7.0")
    obstacles = plan_for(facts).obstacles
    assert len(obstacles) == 1
    assert obstacles[0].startswith(f"{component} must be ")


def test_without_python_nothing_is_planned() -> None:
    facts = image()
    facts["packages"] = dict.fromkeys(facts["packages"])
    plan = plan_for(facts, python=None)
    assert plan.steps == []
    assert "no Python" in plan.obstacles[-1]


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ("/x is not cleaned: it is a directory of the system", "directory of the system"),
        (inspected(remotes={"origin": "https://github.com/other/thing"}), "has github.com/other/thing and not"),
        (inspected(remotes={"origin": "https://u:secret@git.example/x"}), "has git.example/x and not"),
        (inspected(remotes={}), "has no remote and not"),
        (inspected(commit="c" * 40), "stands at cccccccccccc and not at 72dc68973bd7"),
    ],
)
def test_a_tree_that_is_not_the_one_that_is_meant_is_an_obstacle(tree: Facts | str, said: str) -> None:
    facts = image()
    facts["packages"]["vllm-ascend"] = None
    obstacles = plan_for(facts, tree=tree).obstacles
    assert len(obstacles) == 1
    assert said in obstacles[0]
    assert "secret" not in obstacles[0]


def test_the_caller_may_name_another_remote() -> None:
    mine = inspected(remotes={"mine": "ssh://git@git.example:2222/team/fork.git"})
    assert plan_for(image(), Choices(rebuild=True), tree=mine).obstacles != []
    allowed = Choices(rebuild=True, remotes=("https://git.example/team/fork",))
    assert plan_for(image(), allowed, tree=mine).obstacles == []


def test_a_password_in_the_address_of_an_index_is_not_shown() -> None:
    facts = image()
    facts["packages"]["torch-npu"] = None
    step = plan_for(facts, Choices(find_links=("https://me:hunter2@example.org/w",))).steps[0]
    assert "https://me:hunter2@example.org/w" in step.argv
    assert "hunter2" not in shown(step).model_dump_json()
    assert shown(plan_for(facts).steps[0]) == plan_for(facts).steps[0]


def test_without_artifacts_nothing_is_removed() -> None:
    assert clean_steps(inspected(artifacts=[])) == []


def test_a_tree_that_changes_after_the_plan_is_seen() -> None:
    assert changed_since(inspected(), inspected(artifacts=[])) is None
    assert "commit" in (changed_since(inspected(), inspected(commit="d" * 40)) or "")
    assert "remotes" in (changed_since(inspected(), inspected(remotes={})) or "")


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/vllm-project/vllm-ascend",
        "https://github.com/vllm-project/vllm-ascend.git",
        "https://github.com/vllm-project/vllm-ascend/",
        "https://user:token@GitHub.com/vllm-project/vllm-ascend.git",
        "git@github.com:vllm-project/vllm-ascend.git",
        "github.com:vllm-project/vllm-ascend",
        "ssh://git@github.com:22/vllm-project/vllm-ascend.git",
        "git://github.com/vllm-project/vllm-ascend",
    ],
)
def test_one_repository_has_many_addresses(address: str) -> None:
    assert canonical(address) == "github.com/vllm-project/vllm-ascend"


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/evil/vllm-ascend",
        "https://github.com.evil.org/vllm-project/vllm-ascend",
        "https://evil.org/github.com/vllm-project/vllm-ascend",
        "https://github.com/vllm-project/vllm-ascend-fork",
        "https://github.com@evil.org/vllm-project/vllm-ascend",
        "git@evil.org:github.com/vllm-project/vllm-ascend",
        "/srv/github.com/vllm-project/vllm-ascend",
        "",
    ],
)
def test_another_repository_is_not_taken_for_it(address: str) -> None:
    assert expected_remote({"origin": address}, ("https://github.com/vllm-project/vllm-ascend",)) is None


@given(st.text(max_size=60))
def test_no_address_breaks_the_comparison(address: str) -> None:
    assert expected_remote({"origin": address}, (address,)) == "origin"

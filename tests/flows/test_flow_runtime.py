"""An endpoint is held against a profile and brought to it, offline; what must not be touched is not."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from flow_runtime import Toy, git, make_ascend, make_toy
from flow_world import Spoken, processes_with, until

from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # should a test ever forget it, it must not reach out
    return make_toy(tmp_path / "toy")


def prepare(toy: Toy, profile: str, *words: str) -> Spoken:
    offline = ("--offline", "--find-links", str(toy.wheels))
    return toy.cli("runtime-prepare", "--endpoint", "box", "--profile", profile, *offline, *words)


def apply(toy: Toy, profile: str, *words: str) -> Spoken:
    created = toy.cli("task-create", "story", "--endpoint", "box")
    return prepare(toy, profile, "--apply", "--context-file", created.answer["context_file"], *words)


def statuses(spoken: Spoken) -> dict[str, str]:
    return {item["component"]: item["status"] for item in spoken.answer["items"]}


def test_an_endpoint_is_brought_to_a_profile(toy: Toy) -> None:
    profile = toy.profile()
    checked = toy.cli("runtime-check", "--endpoint", "box", "--profile", profile)
    assert (checked.code, checked.answer["verdict"]) == (5, "failed")
    assert set(statuses(checked).values()) == {"match", "missing"}

    planned = prepare(toy, profile, "--plan")
    assert (planned.code, planned.answer["status"]) == (0, "planned")
    pip, tree = f"{toy.python} -m pip", toy.tree
    digest = planned.answer["steps"][0]["stdin"].split()[0]
    quiet = "install --no-input --disable-pip-version-check"
    flags = f"--no-index --find-links {toy.wheels}"
    config = f"-c safe.directory={tree} -c core.fsmonitor=false -c core.hooksPath=/dev/null"
    assert [step["command"] for step in planned.answer["steps"]] == [
        f"sha256sum --check --strict <<< '{digest}  {toy.npu_wheel}'",
        f"{pip} {quiet} {flags} torch==2.9.0+cpu {toy.npu_wheel} triton-ascend==3.2.1 vllm==0.18.0+empty",
        f"git -C {tree} {config} --literal-pathspecs clean -ffdx -- build vllm_ascend/libstale.so",
        f"{pip} {quiet} --verbose --no-build-isolation --no-deps --editable {tree}",
    ]
    assert planned.answer["steps"][2]["paths"] == [f"{tree}/build", f"{tree}/vllm_ascend/libstale.so"]
    assert toy.installed() == set()
    assert (tree / "build/old.o").exists()

    assert prepare(toy, profile, "--apply").answer["error"]["code"] == "task_missing"
    done = apply(toy, profile)
    assert (done.code, done.answer["status"]) == (0, "prepared"), done.answer
    assert set(statuses(done).values()) == {"match"}
    assert (tree / "vllm_ascend/vllm_ascend_C.so").read_text() == "2.9.0+cpu"
    assert not (tree / "build/old.o").exists()
    assert not (tree / "vllm_ascend/libstale.so").exists()
    assert (tree / "notes.txt").read_text() == "mine"
    assert len(done.answer["logs"]) == 4
    assert all(Path(log).read_text().startswith("$ ") for log in done.answer["logs"])

    again = toy.cli("runtime-check", "--endpoint", "box", "--profile", profile)
    assert (again.code, again.answer["verdict"]) == (0, "passed")
    assert prepare(toy, profile).answer["status"] == "nothing_to_do"
    nearest = toy.cli("runtime-check", "--endpoint", "box")
    assert (nearest.code, nearest.answer["verdict"], nearest.answer["profile"]) == (0, None, None)
    assert nearest.answer["nearest"] == "v0.18.0-cann9.0.0"
    runs = toy.cli("run-list").answer["runs"]
    assert [run["operation"] for run in runs] == ["runtime_prepare"]


def test_a_wheel_with_another_hash_is_not_installed(toy: Toy) -> None:
    profile = toy.profile(wheels=[{"url": str(toy.npu_wheel), "sha256": "0" * 64}])
    failed = apply(toy, profile)
    assert (failed.code, failed.answer["error"]["code"]) == (1, "step_failed")
    assert failed.answer["error"]["phase"] == "check"
    assert "did NOT match" in failed.answer["output_tail"]
    assert toy.installed() == set()
    assert (toy.tree / "build/old.o").exists()


def test_a_pin_that_cannot_be_had_ends_before_the_tree_is_touched(toy: Toy) -> None:
    (toy.wheels / "triton_ascend-3.2.1-py3-none-any.whl").unlink()
    failed = apply(toy, toy.profile())
    assert (failed.answer["error"]["code"], failed.answer["error"]["phase"]) == ("step_failed", "install")
    assert "triton-ascend" in Path(failed.answer["refs"]["step_log"]).read_text()
    assert (toy.tree / "build/old.o").exists()
    assert toy.installed() == set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("commit", "-q", "--allow-empty", "-m", "two"), "stands at"),
        (("remote", "set-url", "origin", "https://github.com/other/thing"), "has github.com/other/thing"),
    ],
)
def test_an_obstacle_ends_it_before_anything_is_changed(toy: Toy, words: tuple[str, ...], said: str) -> None:
    git(toy.tree, *words)
    profile = toy.profile()
    planned = prepare(toy, profile)
    assert (planned.code, planned.answer["status"]) == (0, "obstructed")
    assert said in planned.answer["obstacles"][0]
    blocked = apply(toy, profile)
    assert (blocked.code, blocked.answer["error"]["code"]) == (3, "runtime_obstructed")
    assert said in blocked.answer["error"]["message"]
    assert toy.installed() == set()
    assert (toy.tree / "build/old.o").exists()


def test_a_tree_that_somebody_uses_is_left_alone(toy: Toy) -> None:
    with (toy.tree / ".git" / "vaws-tree.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        blocked = apply(toy, toy.profile())
    assert (blocked.code, blocked.answer["error"]["code"]) == (3, "runtime_obstructed")
    assert f"{toy.tree} is in use by" in blocked.answer["error"]["message"]
    assert toy.installed() == set()
    assert (toy.tree / "build/old.o").exists()


def test_the_cann_that_commands_run_with_is_compared(toy: Toy) -> None:
    toolkit = make_ascend(toy.folder / "Ascend", "8.5.1")
    save_endpoint(toy.cli.state_dir, EndpointConfig(name="npu", venv=str(toy.folder / "venv"), cxx_abi=1))
    cann = {"toolkit": "8.5.1", "operators": "8.5.1", "nnal": "8.5.1"}
    profile = toy.profile(cann=cann, packages={}, wheels=[], vllm_ascend=None)
    words = ("runtime-check", "--endpoint", "npu", "--profile", profile)
    found = toy.cli(*words, ASCEND_TOOLKIT_HOME=str(toolkit))
    assert (found.code, found.answer["verdict"]) == (0, "passed"), found.answer
    scripts = [f"{toolkit}/set_env.sh", f"{toy.folder}/Ascend/nnal/atb/set_env.sh --cxx_abi=1"]
    assert found.answer["environment"]["scripts"] == scripts
    bash = toy.cli("bash", "--endpoint", "npu", "echo $ATB_HOME_PATH", ASCEND_TOOLKIT_HOME=str(toolkit))
    assert bash.answer["stdout"].endswith("/cxx_abi_1\n")
    assert bash.answer["env_source"] == "cached"
    cann["nnal"] = "9.0.0"
    other = toy.profile(cann=cann, packages={}, wheels=[], vllm_ascend=None)
    differs = toy.cli(*words[:-1], other, ASCEND_TOOLKIT_HOME=str(toolkit))
    assert (differs.code, statuses(differs)["cann nnal"]) == (5, "mismatch")


def test_a_cancelled_preparation_ends_its_build_and_frees_the_tree(toy: Toy) -> None:
    (toy.tree / "hang").write_text("")
    context_file = toy.cli("task-create", "story", "--endpoint", "box").answer["context_file"]
    profile = toy.profile()
    started = prepare(toy, profile, "--apply", "--context-file", context_file, "--wait-s", "0")
    assert started.answer["status"] == "running", started.answer
    until((toy.tree / "hanging").exists, 60, "the build hangs")
    used = prepare(toy, profile)
    assert f"{toy.tree} is in use by execution-" in used.answer["obstacles"][0]
    assert toy.cli("run-cancel", started.answer["run_id"]).answer["status"] == "cancelled"
    with (toy.tree / ".git" / "vaws-tree.lock").open("r") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert processes_with(str(toy.tree).encode()) == {}


def test_a_profile_that_cannot_be_read_is_refused_before_anything_is_contacted(toy: Toy) -> None:
    refused = toy.cli("runtime-check", "--endpoint", "nowhere", "--profile", "v0.18.0-cann8.5")
    assert (refused.code, refused.answer["error"]["code"]) == (2, "preset_unknown")
    refused = prepare(toy, toy.profile(wheels=[{"url": "x.whl", "sha256": "1"}]))
    assert (refused.code, refused.answer["error"]["code"]) == (2, "preset_invalid")
    both = prepare(toy, toy.profile(), "--plan", "--apply")
    assert (both.code, both.answer["error"]["code"]) == (2, "argument_invalid")

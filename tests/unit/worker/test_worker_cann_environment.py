"""Without env_files the scripts of an installed CANN are found, sourced once, and what they leave is tidied."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from worker_client import Client, Start, WorkerError

from vaws_mcp.worker.engine.cann_environment import Setup, find_setup, tidy
from vaws_mcp.worker.engine.torch_abi import Abi

# As vendors write them: a variable that may be unset, a status that is not 0, doubled and empty entries.
TOOLKIT = """export ASCEND_TOOLKIT_HOME="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
export ASCEND_HOME_PATH=$ASCEND_TOOLKIT_HOME
export LD_LIBRARY_PATH=$ASCEND_TOOLKIT_HOME/lib64:$ASCEND_TOOLKIT_HOME/lib64/:$LD_LIBRARY_PATH:
export PYTHONPATH=$ASCEND_TOOLKIT_HOME/python/site-packages:$PYTHONPATH
[ -n "$NEVER_SET" ] && export NEVER=1
return 1
"""
ATB = """for word in "$@"; do case $word in --cxx_abi=*) abi=${word#--cxx_abi=};; esac; done
[ -z "$abi" ] && { echo guessed > "$HOME/guessed"; abi=1; }
export ATB_HOME_PATH="$(dirname "${BASH_SOURCE[0]}")/latest/atb/cxx_abi_$abi"
export LD_LIBRARY_PATH=$ATB_HOME_PATH/lib:$LD_LIBRARY_PATH
echo once >> "$HOME/sourced"
"""
SHOW = 'echo "$LD_LIBRARY_PATH|$ATB_HOME_PATH|$PYTHONPATH|$#"'


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def ascend(tmp_path: Path) -> Path:
    root = tmp_path / "Ascend"
    write(root / "cann-8.5.1/set_env.sh", TOOLKIT)
    write(root / "nnal/atb/set_env.sh", ATB)
    return root


def run(worker: Client, command: str = SHOW, **env_spec: Any) -> tuple[list[str], str]:
    answer = worker.bash(command, env_spec={"find_cann": True, **env_spec})
    return answer.body.decode().strip().split("|"), answer.result["env_source"]


def make_torch(folder: Path, abi: str) -> None:
    """An installed torch that must not be imported, with the CMake file that states its ABI."""
    write(folder / "torch/__init__.py", "raise SystemExit('imported')")
    write(
        folder / "torch/share/cmake/Torch/TorchConfig.cmake", f'set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI={abi}")'
    )


def test_toolkit_and_atb_are_sourced_with_the_abi_of_torch(start: Start, ascend: Path, home: Path) -> None:
    make_torch(home / "packages", "0")
    variables = {"ASCEND_TOOLKIT_HOME": str(ascend / "cann-8.5.1"), "PYTHONPATH": str(home / "packages")}
    worker = start(**variables)
    (libraries, atb, python_path, words), source = run(worker)
    assert libraries.split(":")[:2] == [f"{ascend}/nnal/atb/latest/atb/cxx_abi_0/lib", f"{ascend}/cann-8.5.1/lib64"]
    assert "" not in libraries.split(":")
    assert atb == f"{ascend}/nnal/atb/latest/atb/cxx_abi_0"
    assert python_path.split(":") == [f"{ascend}/cann-8.5.1/python/site-packages", str(home / "packages")]
    assert (words, source) == ("0", "sourced")
    assert run(worker)[1] == "cached"
    assert run(start(**variables))[1] == "cached"
    assert (home / "sourced").read_text() == "once\n"
    assert not (home / "guessed").exists()


def test_another_torch_makes_the_environment_anew(start: Start, ascend: Path, home: Path) -> None:
    make_torch(home / "packages", "0")
    variables = {"ASCEND_TOOLKIT_HOME": str(ascend / "cann-8.5.1"), "PYTHONPATH": str(home / "packages")}
    run(start(**variables))
    make_torch(home / "packages", "1")
    for worker in (start(**variables), start(**variables)):
        (_libraries, atb, *_rest), source = run(worker)
        assert atb.endswith("cxx_abi_1")
    assert source == "cached"


def test_a_torch_whose_cmake_file_is_silent_is_imported(start: Start, ascend: Path, home: Path) -> None:
    code = "import os\nassert os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] == '0'\n"
    write(home / "packages/torch/__init__.py", code + "def compiled_with_cxx11_abi(): return False\n")
    worker = start(ASCEND_TOOLKIT_HOME=str(ascend / "cann-8.5.1"), PYTHONPATH=str(home / "packages"))
    assert run(worker)[0][1].endswith("cxx_abi_0")


def test_without_torch_the_abi_is_that_of_current_builds(start: Start, ascend: Path, home: Path) -> None:
    folder = home / "venv/bin"
    folder.mkdir(parents=True)
    answer = json.dumps([[], str(home / "platlib")])
    write(folder / "python3", f"#!/bin/sh\necho '{answer}'\n").chmod(0o755)
    worker = start(ASCEND_TOOLKIT_HOME=str(ascend / "cann-8.5.1"))
    assert run(worker, venv=str(home / "venv"))[0][1].endswith("cxx_abi_1")
    assert run(worker, venv=str(home / "venv"))[1] == "cached"
    # What was absent is watched too.
    write(home / "platlib/torch/share/cmake/Torch/TorchConfig.cmake", "_GLIBCXX_USE_CXX11_ABI=0")
    assert run(worker, venv=str(home / "venv"))[1] == "sourced"


def test_the_endpoint_may_say_which_abi(start: Start, ascend: Path, home: Path) -> None:
    make_torch(home / "packages", "0")
    worker = start(ASCEND_TOOLKIT_HOME=str(ascend / "cann-8.5.1"), PYTHONPATH=str(home / "packages"))
    assert run(worker, cxx_abi=1)[0][1].endswith("cxx_abi_1")
    with pytest.raises(WorkerError, match="0 or 1"):
        run(worker, cxx_abi=2)


def test_env_files_win(start: Start, ascend: Path, tmp_path: Path) -> None:
    worker = start(ASCEND_TOOLKIT_HOME=str(ascend / "cann-8.5.1"))
    mine = write(tmp_path / "mine.sh", "export ATB_HOME_PATH=mine")
    assert run(worker, env_files=[str(mine)])[0][1] == "mine"


def test_a_broken_installation_is_named_with_the_way_out(start: Start, ascend: Path) -> None:
    write(ascend / "cann-8.5.1/set_env.sh", "echo licence missing >&2; exit 3\n")
    with pytest.raises(WorkerError) as caught:
        run(start(ASCEND_TOOLKIT_HOME=str(ascend / "cann-8.5.1")), cxx_abi=1)
    assert caught.value.code == "env_failed"
    assert "licence missing" in caught.value.error["message"]
    assert "cann = false" in caught.value.error["hint"]


def test_the_environment_is_reported(start: Start, ascend: Path) -> None:
    worker = start(ASCEND_TOOLKIT_HOME=str(ascend / "cann-8.5.1"))
    found = worker.call("context", {"env_spec": {"find_cann": True, "cxx_abi": 0}}).result["environment"]
    scripts = [f"{ascend}/cann-8.5.1/set_env.sh", f"{ascend}/nnal/atb/set_env.sh --cxx_abi=0"]
    assert found == {"source": "sourced", "from": "cann", "scripts": scripts, "cxx_abi": 0, "cxx_abi_from": "endpoint"}


def test_an_endpoint_without_cann_is_not_slowed_down(worker: Client) -> None:
    assert run(worker, "echo hello") == (["hello"], "direct")
    begin = time.perf_counter()
    for _ in range(1000):
        find_setup({})
    assert time.perf_counter() - begin < 0.5  # half a millisecond each, and it takes microseconds


LAYOUTS = [
    (["ascend-toolkit/set_env.sh"], "ascend-toolkit/set_env.sh"),
    (["ascend-toolkit/latest/set_env.sh"], "ascend-toolkit/latest/set_env.sh"),
    (["ascend-toolkit/set_env.sh", "cann/set_env.sh"], "cann/set_env.sh"),
    (["cann-8.5.1/set_env.sh", "cann-8.10.0/set_env.sh", "cann-8.9/set_env.sh"], "cann-8.10.0/set_env.sh"),
    (["cann-8.5.1/cann-8.5.1/set_env.sh"], "cann-8.5.1/cann-8.5.1/set_env.sh"),
    (["cann-9.0.0/x", "cann-8.5.0/set_env.sh"], "cann-8.5.0/set_env.sh"),
    (["elsewhere/set_env.sh"], None),
]


@pytest.mark.parametrize("root", ["usr/local/Ascend", "opt/conda/Ascend"])
@pytest.mark.parametrize(("files", "chosen"), LAYOUTS)
def test_every_layout_of_the_toolkit_is_found(tmp_path: Path, root: str, files: list[str], chosen: str | None) -> None:
    for name in files:
        write(tmp_path / root / name)
    found = find_setup({}, str(tmp_path))
    assert (found and found.toolkit) == (chosen and str(tmp_path / root / chosen))


@pytest.mark.parametrize("atb", ["nnal/atb/set_env.sh", "nnal/atb/latest/atb/set_env.sh"])
def test_atb_is_found_beside_the_toolkit(tmp_path: Path, atb: str) -> None:
    write(tmp_path / "Ascend/ascend-toolkit/set_env.sh")
    write(tmp_path / "Ascend" / atb)
    found = find_setup({"ASCEND_TOOLKIT_HOME": str(tmp_path / "Ascend/ascend-toolkit/latest")})
    assert found is not None
    assert found.toolkit == str(tmp_path / "Ascend/ascend-toolkit/set_env.sh")
    assert found.atb == str(tmp_path / "Ascend" / atb)


def test_the_libraries_of_the_driver_come_last_and_once(tmp_path: Path) -> None:
    driver = "/usr/local/Ascend/driver/lib64"
    write(tmp_path / "usr/local/Ascend/cann/set_env.sh")
    for name in ("common", "driver"):
        (tmp_path / driver[1:] / name).mkdir(parents=True)
    setup = find_setup({}, str(tmp_path))
    assert setup is not None
    assert setup.libraries == [driver, f"{driver}/common", f"{driver}/driver"]
    env = {
        "LD_LIBRARY_PATH": f"/a/cxx_abi_0/lib:/cann/lib64::{driver}/driver/:/cann/lib64",
        "PATH": "/bin:/usr/bin:/bin",
    }
    tidy(env, setup, Abi(1, "torch", []))
    assert env["LD_LIBRARY_PATH"] == f"/cann/lib64:{driver}/driver/:{driver}:{driver}/common"
    assert env["PATH"] == "/bin:/usr/bin"
    assert "PYTHONPATH" not in env


def test_tidying_twice_changes_nothing() -> None:
    env = {"PATH": os.defpath, "LD_LIBRARY_PATH": "", "PYTHONPATH": ":"}
    setup = Setup("/x", None, ["/usr/local/lib"])
    tidy(env, setup, None)
    assert env == {"PATH": ":".join(filter(None, os.defpath.split(":"))), "LD_LIBRARY_PATH": "/usr/local/lib"}
    again = dict(env)
    tidy(again, setup, None)
    assert again == env

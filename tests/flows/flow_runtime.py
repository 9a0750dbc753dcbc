"""A toy endpoint for runtimes: a virtual environment, a vllm-ascend that builds in a blink, and local wheels."""

from __future__ import annotations

import ensurepip
import hashlib
import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flow_world import Cli

from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint

REMOTE = "https://github.com/vllm-project/vllm-ascend"

# A build backend of its own: it needs no package at all, and leaves what a real build leaves.
BACKEND = """
import pathlib, subprocess, zipfile
ROOT = pathlib.Path(__file__).resolve().parent


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    import time
    import torch
    if (ROOT / "hang").exists():
        (ROOT / "hanging").write_text("")
        time.sleep(300)
    if (ROOT / "vllm_ascend" / "stale.so").exists() or (ROOT / "vllm_ascend" / "libstale.so").exists():
        raise SystemExit("an old artifact is in the way")
    sha = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    version = "0.1.dev1+g" + sha.stdout[:9] + ".d20260729"
    (ROOT / "build").mkdir()
    (ROOT / "vllm_ascend" / "vllm_ascend_C.so").write_text(torch.VERSION)
    (ROOT / "vllm_ascend" / "_build_info.py").write_text("BUILT = True\\n")
    name = "vllm_ascend-" + version + "-py3-none-any.whl"
    info = "vllm_ascend-" + version + ".dist-info/"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as wheel:
        wheel.writestr("vllm_ascend.pth", str(ROOT))
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: vllm-ascend\\nVersion: " + version + "\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
IGNORED = "build/\n*.so\n_build_info.py\n__pycache__/\n"

# As vendors write them.
SET_ENV = """export ASCEND_HOME_PATH="$(dirname "${BASH_SOURCE[0]}")"
export LD_LIBRARY_PATH=$ASCEND_HOME_PATH/lib64:$LD_LIBRARY_PATH
"""
SET_ATB = """for word in "$@"; do case $word in --cxx_abi=*) abi=${word#--cxx_abi=};; esac; done
export ATB_HOME_PATH="$(dirname "${BASH_SOURCE[0]}")/latest/atb/cxx_abi_$abi"
"""


def git(tree: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    return subprocess.run(["git", "-C", tree, *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def make_wheel(folder: Path, name: str, version: str) -> Path:
    """Write a wheel with one module that knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    path, info = folder / f"{module}-{version}-py3-none-any.whl", f"{module}-{version}.dist-info/"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{module}.py", f"VERSION = {version!r}\n")
        wheel.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(info + "RECORD", "")
    return path


def make_tree(tree: Path) -> str:
    """Make the toy vllm-ascend, built once before with another torch, and return its commit."""
    (tree / "vllm_ascend").mkdir(parents=True)
    (tree / "vllm_ascend" / "__init__.py").write_text("")
    (tree / "backend.py").write_text(BACKEND)
    (tree / "pyproject.toml").write_text(PYPROJECT)
    (tree / ".gitignore").write_text(IGNORED)
    git(tree, "init", "-q", "-b", "main")
    git(tree, "remote", "add", "origin", REMOTE)
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "one")
    (tree / "vllm_ascend" / "libstale.so").write_text("old")
    (tree / "build").mkdir()
    (tree / "build" / "old.o").write_text("old")
    (tree / "notes.txt").write_text("mine")
    return git(tree, "rev-parse", "HEAD")


@dataclass(frozen=True)
class Toy:
    """A state directory with the endpoint ``box``, which is this machine with a virtual environment."""

    cli: Cli
    folder: Path
    commit: str

    @property
    def tree(self) -> Path:
        return self.folder / "vllm-ascend"

    @property
    def wheels(self) -> Path:
        return self.folder / "wheels"

    @property
    def python(self) -> str:
        return str(self.folder / "venv" / "bin" / "python3")

    @property
    def npu_wheel(self) -> Path:
        return self.folder / "named" / "torch_npu-2.9.0.post2-py3-none-any.whl"

    def profile(self, **changes: Any) -> str:
        """Write the profile, as a person would, and return its path."""
        digest = hashlib.sha256(self.npu_wheel.read_bytes()).hexdigest()
        packages = {"torch": "2.9.0+cpu", "torch-npu": "2.9.0.post2", "triton-ascend": "3.2.1", "vllm": "0.18.0+empty"}
        value = {
            "schema": "vaws.runtime-profile.v1",
            "name": "toy",
            "python": f"{sys.version_info.major}.{sys.version_info.minor}",
            "packages": packages,
            "vllm_ascend": {"commit": self.commit, "remotes": [REMOTE]},
            "wheels": [{"url": str(self.npu_wheel), "sha256": digest}],
            **changes,
        }
        path = self.folder / "toy.json"
        path.write_text(json.dumps(value))
        return str(path)

    def installed(self) -> set[str]:
        """Names of what is installed in the virtual environment."""
        (folder,) = (self.folder / "venv").glob("lib/python3*/site-packages")
        return {path.name for path in folder.glob("*.dist-info") if not path.name.startswith(("pip-", "setuptools-"))}


def make_venv(venv: Path) -> None:
    """Make a virtual environment with the pip that Python brings along, unpacked, which is much the fastest."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, capture_output=True)
    (folder,) = venv.glob("lib/python3*/site-packages")
    (wheel,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def make_toy(folder: Path) -> Toy:
    folder = folder.resolve()
    make_venv(folder / "venv")
    commit = make_tree(folder / "vllm-ascend")
    for name, version in (("torch", "2.9.0+cpu"), ("triton-ascend", "3.2.1"), ("vllm", "0.18.0+empty")):
        make_wheel(folder / "wheels", name, version)
    make_wheel(folder / "named", "torch-npu", "2.9.0.post2")
    state_dir = folder / ".vaws-local"
    state_dir.mkdir()
    places = {"venv": str(folder / "venv"), "vllm_ascend_repo": str(folder / "vllm-ascend"), "cann": False}
    lease_dir = str(folder / "leases")
    save_endpoint(state_dir, EndpointConfig.model_validate({"name": "box", **places, "lease_dir": lease_dir}))
    return Toy(Cli(state_dir), folder, commit)


def make_ascend(root: Path, version: str) -> Path:
    """Make an installation of CANN, as far as versions and environment go, and return its toolkit."""
    toolkit = root / f"cann-{version}"
    files = {
        toolkit / "set_env.sh": SET_ENV,
        toolkit / "aarch64-linux/ascend_toolkit_install.info": f"package_name=Ascend-cann-toolkit\nversion={version}\n",
        toolkit / "aarch64-linux/ascend_ops_install.info": f"package_name=Ascend-cann-ops\nversion={version}\n",
        root / "nnal/atb/set_env.sh": SET_ATB,
        root / "nnal/atb/latest/version.info": f"    Ascend-cann-atb : {version}\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return toolkit

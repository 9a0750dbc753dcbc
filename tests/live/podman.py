"""Starts a real container with podman and runc, which work on a bare machine, for the live tests."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import tarfile
import uuid
from collections.abc import Generator, Sequence
from pathlib import Path

PODMAN_MISSING = "no container can be started: apt-get install podman runc, and run the tests as root"
FOLDERS = ("dev", "etc", "home", "proc", "root", "run", "srv", "sys", "tmp", "var", "var/tmp", "usr", "bin", "lib")
# The programs of this machine, so that no image has to be fetched.
SHARED = ("/usr", "/bin", "/lib", "/lib64", "/etc")
WAIT_S = 60.0


class PodmanError(Exception):
    """A container could not be made; the text carries what podman said."""


def can_run() -> bool:
    """Say whether the programs are there and we may use them."""
    return bool(shutil.which("podman") and shutil.which("runc")) and os.geteuid() == 0


def podman(*words: str, data: bytes | None = None) -> str:
    """Run podman and return what it printed.

    Raises: PodmanError.
    """
    argv = ["podman", "--cgroup-manager=cgroupfs", "--runtime", "runc", *words]
    try:
        done = subprocess.run(argv, input=data or b"", capture_output=True, timeout=WAIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise PodmanError(f"podman {words[0]} did not end within {WAIT_S:.0f} s") from None
    if done.returncode:
        raise PodmanError(f"podman {words[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()


def empty_tree() -> bytes:
    """Return a tar archive of the directories that a system needs."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in (*FOLDERS, "lib64"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name.endswith("tmp") else 0o755
            archive.addfile(entry)
    return buffer.getvalue()


@contextlib.contextmanager
def running_container(network: str = "none", volumes: Sequence[Path] = ()) -> Generator[str]:
    """Run a container that only sleeps; yield its name, and remove it and its image at exit.

    ``volumes`` are directories of this machine that it has at the same place.

    Raises: PodmanError when podman cannot start one, as in some sandboxes.
    """
    name = f"vaws-test-{uuid.uuid4().hex[:12]}"
    image = f"localhost/{name}:1"
    mounts = [word for path in SHARED if Path(path).is_dir() for word in ("-v", f"{path}:{path}:ro")]
    mounts += [word for path in volumes for word in ("-v", f"{path}:{path}")]
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--security-opt", "seccomp=unconfined"]
    podman("import", "-", image, data=empty_tree())
    try:
        podman("run", "-d", "--name", name, f"--network={network}", *limits, *mounts, image, "/bin/sleep", "3600")
        yield name
    finally:
        with contextlib.suppress(PodmanError):
            podman("rm", "-f", "-t", "0", name)
        podman("rmi", "-f", image)

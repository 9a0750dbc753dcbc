"""The record of the simulated container of a state directory, and the lock that keeps it the only one."""

import contextlib
import fcntl
import json
import shutil
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TextIO, cast

from vaws_mcp.sim.options import SimError, SimUnsupported
from vaws_mcp.sim.processes import Identity, drain, is_alive

Report = dict[str, Any]
RECORD = "sim.json"
NEEDED = ("pid", "start_ticks", "host_boot_id", "marker", "root", "owns_root")


def check_git() -> None:
    """Refuse without git.

    Raises: SimUnsupported.
    """
    if not shutil.which("git"):
        raise SimUnsupported("the simulated container needs git; install it (for example `apt-get install git`)")


def state_folder(state_dir: Path, create: bool = False) -> Path:
    """Return the folder of the container below a state directory."""
    folder = state_dir.absolute() / "sim"
    if create:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def host_boot_id() -> str:
    """Return the boot id of the real machine; pids of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def read_record(folder: Path) -> Report | None:
    """Read the record of the last container, or None when there is none.

    Raises: SimError for a damaged record, which is left as it is.
    """
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        record = None
    if not isinstance(record, dict) or not all(key in record for key in NEEDED):
        raise SimError(f"{path} is no record of a simulated container; look at it and remove it, then start again")
    return cast("Report", record)


def write_record(folder: Path, record: Report) -> None:
    """Write the record, atomically."""
    draft = folder / f"{RECORD}.new"
    draft.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    draft.replace(folder / RECORD)


def owner(record: Report) -> Identity | None:
    """Return the identity of the container's process while it lives."""
    identity = Identity(int(record["pid"]), int(record["start_ticks"]))
    return identity if record["host_boot_id"] == host_boot_id() and is_alive(identity) else None


def running(folder: Path) -> Report | None:
    """Return the record when its container runs."""
    record = read_record(folder)
    return record if record and owner(record) else None


def discard(folder: Path) -> list[int]:
    """End what a dead container left running and remove its sandbox and record; returns the pids that survived."""
    record = read_record(folder)
    if record is None:
        return []
    _, survivors = drain(record["marker"])
    root = Path(record["root"])
    if not survivors:
        if record["owns_root"] and root.parent == folder:
            shutil.rmtree(root, ignore_errors=True)
        (folder / RECORD).unlink(missing_ok=True)
    return survivors


@contextlib.contextmanager
def lock(folder: Path) -> Generator[TextIO | None]:
    """Hold the lock of the state directory; gives None when a container holds it already."""
    with (folder / "lock").open("a", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file


def wait_running(folder: Path, seconds: float, failed: Callable[[], str | None]) -> Report:
    """Wait until a container runs.

    Raises: SimError when ``failed`` gives a reason or the time is over.
    """
    end = time.monotonic() + seconds
    pause = 0.01
    while time.monotonic() < end:
        if record := running(folder):
            return record
        if reason := failed():
            raise SimError(reason)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
    raise SimError(f"the simulated container was not ready after {seconds:.0f} s; see {folder / 'sim.log'}")

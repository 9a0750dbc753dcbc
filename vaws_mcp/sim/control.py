"""Starting the simulated container in the background, asking for it, and stopping it."""

import json
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

from vaws_mcp.sim.options import SimOptions
from vaws_mcp.sim.processes import Identity, drain, is_alive, send_signal
from vaws_mcp.sim.state import Report, check_git, discard, owner, read_record, running, state_folder, wait_running

START_S = 30.0
STOP_S = 10.0
PACKAGE_PARENT = Path(__file__).parents[2]


def start_detached(options: SimOptions, state_dir: Path) -> Report:
    """Start the container in a session of its own and return its facts when it is ready.

    Raises: SimUnsupported, SimError.
    """
    check_git()
    folder = state_folder(state_dir, create=True)
    if record := running(folder):
        return record | {"already_running": True}
    root = None if options.root is None else str(options.root.absolute())
    words = json.dumps(asdict(replace(options, root=None)) | {"root": root})
    log = folder / "sim.log"
    with log.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, "-m", "vaws_mcp.sim", str(state_dir.absolute()), words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            cwd=PACKAGE_PARENT,
            start_new_session=True,
        )
    # Takes note of its end, whenever that is; it does not keep us alive.
    threading.Thread(target=child.wait, daemon=True, name="reap the simulated container").start()

    def failed() -> str | None:
        if child.poll() in (None, 0):
            return None
        text = log.read_text(encoding="utf-8", errors="replace").strip()
        return f"the simulated container ended with status {child.returncode}: {text[-500:]} (see {log})"

    record = wait_running(folder, START_S, failed)
    return record | {"already_running": record["pid"] != child.pid}


def status(state_dir: Path) -> Report:
    """Say whether the container is ``running``, with its facts when there are any.

    Raises: SimError for a damaged record.
    """
    record = read_record(state_folder(state_dir))
    return {"running": False} if record is None else record | {"running": owner(record) is not None}


def stop(state_dir: Path) -> Report:
    """Stop the container and every process in it; one that does not run is not an error.

    Returns ``was_running``, ``stopped``, the number of processes ``signalled`` and the pids of ``survivors``.
    Raises: SimError for a damaged record.
    """
    folder = state_folder(state_dir)
    record = read_record(folder)
    if record is None:
        return {"was_running": False, "stopped": True, "signalled": 0, "survivors": []}
    identity = owner(record)
    if identity:
        send_signal(identity, signal.SIGTERM)
        if not _wait_gone(identity):
            send_signal(identity, signal.SIGKILL)
            _wait_gone(identity)
    signalled, survivors = drain(record["marker"])
    if identity and is_alive(identity):
        survivors = [identity.pid, *survivors]
    if not survivors:
        survivors = discard(folder)
    done = {"stopped": not survivors, "signalled": signalled + bool(identity), "survivors": survivors}
    return {"was_running": identity is not None, **done}


def _wait_gone(identity: Identity) -> bool:
    end = time.monotonic() + STOP_S
    pause = 0.005
    while is_alive(identity):
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    return True

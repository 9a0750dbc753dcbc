"""The ``execution.*`` methods: submit, look at, wait for and stop executions, and page through their logs."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from typing import Any, Dict, List, Optional

from .engine.atomic import replace_file
from .engine.environment import base_environment, package_root
from .engine.lines import whole_characters
from .engine.linux import send_signal
from .launch import command_line
from .refusal import Refusal, bad_request
from .request import Answer, Request
from .supervisor import idle
from .supervisor import spec as specs
from .supervisor import status as records
from .supervisor.stop import drain_orphans, request_stop

SUBMIT_BOUND_S = 5.0
STARTING_BOUND_S = 0.5
_EARLY_STATES = ("queued", "starting")  # a command that starts at once is answered as running


def submit(request: Request) -> Answer:
    """Create an execution and start its supervisor; the same spec under the same id is answered, not repeated."""
    spec = specs.parse(request.params.mapping("spec"))
    folder = os.path.join(specs.folder_of_all(), spec.execution_id)
    created = _create_folder(folder, specs.dump(spec.raw))
    if not created and specs.dump(specs.load(folder)) != specs.dump(spec.raw):
        message = f"execution {spec.execution_id} exists with another spec"
        raise Refusal("spec_conflict", message, "caller", hint="Use a new execution id, or stop the present one.")
    if records.read_status(folder) is None:
        # Also when it was created before: its supervisor may never have started. A second one gives way by the lock.
        _start_supervisor(folder)
    status = _first_status(request, folder, spec.execution_id)
    return {"execution_id": spec.execution_id, "state": status["state"], "created": created, "status": status}, b""


def _create_folder(folder: str, spec: bytes) -> bool:
    parent, name = os.path.split(folder)
    os.makedirs(parent, 0o700, exist_ok=True)
    if os.path.isdir(folder):
        return False
    draft = os.path.join(parent, f".new-{name}-{os.getpid()}-{os.urandom(4).hex()}")
    os.mkdir(draft, 0o700)
    try:
        replace_file(os.path.join(draft, "spec.json"), spec)
        os.rename(draft, folder)
    except OSError:
        if os.path.isdir(folder):
            return False  # another worker was quicker
        raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return True


def _start_supervisor(folder: str) -> None:
    argv = [*command_line(sys.executable, package_root(), __package__ or ""), "supervise", folder]
    log = os.path.join(folder, "supervisor.log")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions: List[Any] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    # It leaves our session by itself, and the undertaker waits for it: nobody here has to remember it.
    os.posix_spawn(sys.executable, argv, base_environment(use_container_env=False), file_actions=actions)


def _first_status(request: Request, folder: str, execution_id: str) -> records.Status:
    began = time.monotonic()
    pause = 0.002
    while True:
        status = records.read_status(folder)
        elapsed = time.monotonic() - began
        waits = status is not None and bool(status.get("queue") or status.get("blocked"))
        if status is not None and (status["state"] not in _EARLY_STATES or waits or elapsed >= STARTING_BOUND_S):
            return records.observe(folder, execution_id)
        if elapsed >= SUBMIT_BOUND_S:
            message = f"the supervisor of {execution_id} did not begin within {SUBMIT_BOUND_S:.0f} s"
            raise Refusal("supervisor_failed", message, hint=f"See {folder}/supervisor.log.")
        request.pause(pause)
        pause = min(pause * 1.5, 0.02)


def status(request: Request) -> Answer:
    """Answer with the record as it is now, the living processes and the sizes of the logs."""
    execution_id = request.params.text("execution_id")
    folder = specs.existing_folder(execution_id)
    return _full_status(folder, records.observe(folder, execution_id)), b""


def _full_status(folder: str, found: records.Status) -> Dict[str, Any]:
    found["family"] = records.alive_family(found) if found["state"] not in records.FINAL_STATES else []
    found["logs"] = records.log_sizes(folder)
    return found


def list_all(_request: Request) -> Answer:
    """Answer with the record of every execution; one whose record is unreadable is named in ``unreadable``."""
    found: List[records.Status] = []
    unreadable: List[str] = []
    try:
        names = sorted(os.listdir(specs.folder_of_all()))
    except FileNotFoundError:
        names = []
    for name in names:
        if name.startswith("."):
            continue
        try:
            found.append(records.observe(specs.existing_folder(name), name))
        except Refusal:
            unreadable.append(name)
    return {"executions": found, "unreadable": unreadable}, b""


def touch(request: Request) -> Answer:
    """Note that the owner of an execution wants it, which keeps it from ending for disuse; answers as ``status``."""
    execution_id = request.params.text("execution_id")
    folder = specs.existing_folder(execution_id)
    found = records.observe(folder, execution_id)
    if found["state"] not in records.FINAL_STATES:
        idle.touch(folder)
    return _full_status(folder, found), b""


def stop(request: Request) -> Answer:
    """End an execution and wait, at most ``wait_s``, until it has exited; asking again is harmless."""
    params = request.params
    execution_id = params.text("execution_id")
    folder = specs.existing_folder(execution_id)
    spec = specs.parse(specs.load(folder))
    times = specs.stop_times(params.values, spec.stop)
    reason = params.optional_text("reason") or "stop requested"
    limit = time.monotonic() + params.seconds("wait_s", sum(times) + 10.0)
    found = records.observe(folder, execution_id)
    if found["supervised"]:
        request_stop(folder, reason, times)
    if found["state"] == "exited" and not found["resources_released"]:
        again = drain_orphans(folder, found, reason, times)
        return _full_status(folder, found if again is None else {**again, "supervised": False}), b""
    found = _stop_until(request, folder, found, limit, (reason, times))
    return _full_status(folder, found), b""


def _stop_until(request: Request, folder: str, found: records.Status, limit: float, order: Any) -> records.Status:
    execution_id = found["execution_id"]
    pause = 0.005
    told = False
    while found["state"] != "exited":
        if not found["supervised"]:
            finished = drain_orphans(folder, found, *order)
            if finished is not None:
                finished["supervised"] = False
                return finished
        supervisor = records.as_identity(found["supervisor"])
        if not told and supervisor is not None:
            told = send_signal(supervisor, signal.SIGTERM)
        if time.monotonic() >= limit:
            break
        request.pause(pause)
        pause = min(pause * 1.5, 0.1)
        found = records.observe(folder, execution_id)
    return found


def wait(request: Request) -> Answer:
    """Wait, at most ``timeout_s``, until the execution is running, exited or released; says whether it is."""
    params = request.params
    execution_id = params.text("execution_id")
    until = params.choice("until", ["exited", "running", "released"])
    folder = specs.existing_folder(execution_id)
    limit = time.monotonic() + params.seconds("timeout_s", 45.0)
    pause = 0.02
    while True:
        found = records.observe(folder, execution_id)
        reached = _reached(found, until)
        if reached or found["state"] in records.FINAL_STATES or time.monotonic() >= limit:
            found["reached"] = reached
            return found, b""
        request.pause(min(pause, max(0.001, limit - time.monotonic())))
        pause = min(pause * 1.3, 0.2)


def _reached(found: records.Status, until: str) -> bool:
    if until == "running":
        return bool(found["state"] == "running")
    if until == "exited":
        return found["state"] in records.FINAL_STATES
    return bool(found["state"] in records.FINAL_STATES and found["resources_released"])


def tail(request: Request) -> Answer:
    """Answer with a piece of a log that ends with a whole character, and where the next piece begins."""
    params = request.params
    execution_id = params.text("execution_id")
    folder = specs.existing_folder(execution_id)
    name = params.choice("stream", ["stdout", "stderr", "supervisor"])
    offset: Optional[int] = params.optional_integer("offset")
    max_bytes = max(4, params.integer("max_bytes", 65536, 1))
    if offset is not None and offset < 0:
        raise bad_request("execution.tail: offset must be at least 0")
    ended = records.observe(folder, execution_id)["state"] in records.FINAL_STATES
    try:
        fd = os.open(os.path.join(folder, name + ".log"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return {"offset": 0, "next_offset": 0, "size": 0, "eof": ended}, b""
    try:
        size = os.fstat(fd).st_size
        start = max(0, size - max_bytes) if offset is None else offset
        raw = os.pread(fd, max_bytes, start)
    finally:
        os.close(fd)
    if offset is None and start > 0:
        skipped = _leading_rest(raw)
        start, raw = start + skipped, raw[skipped:]
    at_end = start + len(raw) >= size
    if not (at_end and ended):
        raw = raw[: whole_characters(raw)]
    following = start + len(raw)
    return {"offset": start, "next_offset": following, "size": size, "eof": ended and following >= size}, raw


def _leading_rest(raw: bytes) -> int:
    """Return how many bytes at the front belong to a character that began before."""
    count = 0
    while count < min(3, len(raw)) and raw[count] & 0xC0 == 0x80:
        count += 1
    return count

"""The ``job.*`` methods: look at jobs, page through their output, write to them, stop them. Any worker can do it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from typing import Any, Dict, List, Tuple

from ..refusal import Refusal, bad_request
from ..request import Answer, Request
from . import jobs_records as records
from .drain import Drained, Pace, describe, drain
from .jobs_control import ask
from .lines import whole_characters
from .outputs import STREAM_NAMES

_LONGEST_PAGE = 8 << 20
_LONGEST_PAUSE_S = 0.05
_RECORD_BOUND_S = 5.0


def status(request: Request) -> Answer:
    """Answer with the job as it is now, its living processes and the sizes of its logs."""
    return _full(records.existing_folder(request.params.text("job_id"))), b""


def _full(folder: str) -> records.Record:
    found = _brief(folder)
    family = records.family_of(found)
    found["processes"] = [] if family is None else [describe(process) for process in family.members()]
    return found


def _brief(folder: str) -> records.Record:
    found = records.observe(folder)
    for name, stream in found["streams"].items():
        stream["bytes"] = _size(folder, name)
    found["log_dir"] = folder
    return found


def _size(folder: str, name: str) -> int:
    try:
        return os.stat(os.path.join(folder, name + ".log")).st_size
    except FileNotFoundError:
        return 0


def list_all(request: Request) -> Answer:
    """Answer with the newest jobs, and how many more there are; an unreadable one is named in ``unreadable``."""
    limit = request.params.integer("limit", 50, 1)
    running_only = request.params.flag("running_only")
    found: List[records.Record] = []
    unreadable: List[str] = []
    left_out = 0
    for name in records.names():
        request.check()
        try:
            job = _brief(os.path.join(records.folder_of_all(), name))
        except Refusal:
            unreadable.append(name)
            continue
        if running_only and job["state"] not in ("running", "lost_keeper"):
            continue
        if len(found) < limit:
            found.append(job)
        else:
            left_out += 1
    return {"jobs": found, "left_out": left_out, "unreadable": unreadable}, b""


def tail(request: Request) -> Answer:
    """Answer with a piece of a log that ends with a whole character, and where the next piece begins.

    With ``wait_s`` an empty piece is not answered before something comes or the job ends, within that time.
    """
    params = request.params
    folder = records.existing_folder(params.text("job_id"))
    name = params.choice("stream", list(STREAM_NAMES))
    offset = params.optional_integer("offset") or 0
    max_bytes = max(4, min(params.integer("max_bytes", 65536, 1), _LONGEST_PAGE))
    limit = time.monotonic() + params.seconds("wait_s", 0.0)
    pause = 0.002
    while True:
        page, raw = _page(folder, name, offset, max_bytes)
        offset = page["offset"]  # one from the end is fixed at the first look, or waiting would skip output
        left = limit - time.monotonic()
        if raw or page["eof"] or left <= 0:
            return page, raw
        request.pause(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)


def _page(folder: str, name: str, offset: int, max_bytes: int) -> Tuple[Dict[str, Any], bytes]:
    job = records.observe(folder)  # before the log: when it has ended by now, the log is complete
    stream = job["streams"].get(name) or {"open": False, "dropped": 0, "log_error": None}
    ended = job["state"] != "running" and not stream["open"]  # without its keeper nobody reads what may still come
    size, start, raw = _read(os.path.join(folder, name + ".log"), offset, max_bytes)
    if start > size:
        hint = f"The log has {size} bytes; use the next_offset of the last answer."
        raise bad_request(f"job.tail: offset {start} is beyond the end of {name}", hint)
    if not (ended and start + len(raw) >= size):
        raw = raw[: whole_characters(raw)]
    following = start + len(raw)
    return {
        "offset": start,
        "next_offset": following,
        "size": size,
        "eof": ended and following >= size,
        "dropped": stream["dropped"],
        "log_error": stream["log_error"],
        "state": job["state"],
        "exit_code": job["exit_code"],
        "signal_name": job["signal_name"],
    }, raw


def _read(path: str, offset: int, max_bytes: int) -> Tuple[int, int, bytes]:
    """Return the log's size, where the piece begins, and the piece. A negative offset counts from the end."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, max(0, offset), b""
    try:
        size = os.fstat(fd).st_size
        start = offset if offset >= 0 else max(0, size + offset)
        raw = os.pread(fd, max_bytes, start)
    finally:
        os.close(fd)
    if offset < 0 < start:
        within = _within_a_character(raw)
        return size, start + within, raw[within:]
    return size, start, raw


def _within_a_character(raw: bytes) -> int:
    """Return how many bytes at the front belong to a character that began before."""
    count = 0
    while count < min(3, len(raw)) and raw[count] & 0xC0 == 0x80:
        count += 1
    return count


def stdin(request: Request) -> Answer:
    """Write the body to a job's standard input, as much as it takes within ``wait_s``, and close it with ``eof``."""
    params = request.params
    job_id = params.text("job_id")
    folder = records.existing_folder(job_id)
    limit = time.monotonic() + params.seconds("wait_s", 5.0)
    written, closed = 0, False
    if request.body:
        fd = _writable(request, folder, job_id, limit)
        try:
            written, closed = _write(request, fd, limit)
        finally:
            os.close(fd)
    left = len(request.body) - written
    if params.flag("eof") and not left and not closed:
        _ask(folder, job_id, b"e", limit)
        closed = True
    return {"written": written, "remaining": left, "closed": closed}, b""


def _writable(request: Request, folder: str, job_id: str, limit: float) -> int:
    """Return a descriptor of the standard input, when what was sent before has gone through."""
    pause = 0.002
    while True:
        state, fd = _ask(folder, job_id, b"w", limit)
        if fd >= 0:
            return fd
        if state != b"b":
            hint = "Start the command with stdin_open or tty to write to it later."
            raise Refusal("stdin_closed", f"the standard input of {job_id} is closed", hint=hint)
        if time.monotonic() >= limit:
            raise Refusal("stdin_busy", f"{job_id} has not read its earlier input yet", hint="Try again later.")
        request.pause(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)


def _ask(folder: str, job_id: str, wish: bytes, limit: float) -> Tuple[bytes, int]:
    try:
        return ask(folder, wish, max(1.0, limit - time.monotonic()))
    except OSError as error:
        state = records.observe(folder)["state"]
        code = "keeper_silent" if isinstance(error, socket.timeout) else "stdin_closed"
        message = f"nobody takes input for {job_id}, which is {state}: {error.strerror or error}"
        raise Refusal(code, message, hint="job_status shows what became of it.") from None


def _write(request: Request, fd: int, limit: float) -> Tuple[int, bool]:
    """Write whole characters in pieces that a pipe takes entirely or not at all; returns (bytes, nobody reads)."""
    body, position = request.body, 0
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    while position < len(body) and request.interrupted() is None:
        piece = body[position : position + select.PIPE_BUF]
        if position + len(piece) < len(body):
            piece = piece[: whole_characters(piece)] or piece
        try:
            position += os.write(fd, piece)
            continue
        except BlockingIOError:
            pass
        except OSError:  # EPIPE, and EIO of a terminal
            return position, True
        left = limit - time.monotonic()
        if left <= 0:
            break
        poller.poll(int(min(left, _LONGEST_PAUSE_S) * 1000) + 1)
    return position, False


def stop(request: Request) -> Answer:
    """End everything a job has started, from gentle to hard signals, and answer with what was drained.

    A job whose keeper is gone gets its record finished here. Asking again is harmless.
    """
    params = request.params
    job_id = params.text("job_id")
    if params.flag("if_exists") and not os.path.exists(os.path.join(records.folder_of_all(), job_id, records.RECORD)):
        return {"existed": False}, b""
    folder = records.existing_folder(job_id)
    before = records.observe(folder)
    family = records.family_of(before)
    drained = Drained(0, [])
    if family is not None and (before["state"] in ("running", "lost_keeper") or family.members()):
        _order_stop(folder)
        first = signal.SIGHUP if before["tty"] else signal.SIGINT
        first_s = params.seconds("interrupt_s", 1.0)
        pace = Pace(
            params.seconds("grace_s", 2.0),
            pause=request.pause,
            first=(int(first), first_s) if first_s else None,
        )
        drained = drain(family, pace)
    found = _ended(request, folder)
    found["existed"] = True
    found["state_before"] = before["state"]
    found["drained"] = drained.as_dict()
    return found, b""


def _order_stop(folder: str) -> None:
    """Note that the end was asked for; a full disk does not prevent it."""
    path = os.path.join(folder, records.STOP_ORDER)
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as stream:
            stream.write(records.now().encode("ascii"))


def _ended(request: Request, folder: str) -> records.Record:
    """Return the job after its keeper has noted its end; without a keeper note it here."""
    limit = time.monotonic() + _RECORD_BOUND_S
    pause = 0.002
    while True:
        found = records.observe(folder)
        if found["state"] == "lost":
            _finish_lost(folder)
        ended = found["state"] not in ("running", "lost_keeper")
        if ended or time.monotonic() >= limit:
            return _full(folder)
        request.pause(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)


def _finish_lost(folder: str) -> None:
    record = records.read(folder)
    if record["state"] == "running":
        record.update(state="lost", ended_at=records.now(), cause="its keeper was gone; its exit code is not known")
        with contextlib.suppress(OSError):
            records.write(folder, record)

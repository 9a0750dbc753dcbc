"""The worker's connection: reads frames, gives each request a thread of its own, writes frames."""

from __future__ import annotations

import os
import platform
import select
import socket
import sys
import threading
import time
import traceback
from io import BufferedReader
from typing import Any, Dict, List, Optional

from . import wire
from .engine.inflight import IN_FLIGHT, end_leftovers
from .facts import procfs
from .homes import own_home, remove_one_unused
from .keeping import KEEPING
from .methods import find
from .pool import Pool
from .refusal import Refusal, bad_request, from_os_error
from .request import Answer, Call, Request, Waker

EOF_DRAIN_BOUND_S = 20.0
BULK = "bulk"
GONE = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class Writer:
    """Writes whole frames from many threads; frames for a connection that is gone are dropped."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._gone = False

    def send(self, head: wire.Head, body: bytes = b"") -> None:
        """Write one frame. Raises: FrameError when it is over the limits."""
        self._write(wire.encode(head, body))

    def send_raw(self, raw: bytes) -> None:
        """Write bytes that are no frame, before the first one."""
        self._write([raw])

    def let_go(self, in_fd: int) -> None:
        """Give up the connection, of which standard output and error may be a part."""
        with self._lock:
            self._gone = True
            nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            for fd in (in_fd, self._fd, 1, 2):
                os.dup2(nowhere, fd, inheritable=fd in (1, 2))
            os.close(nowhere)

    def _write(self, parts: List[bytes]) -> None:
        with self._lock:
            if self._gone:
                return
            try:
                for part in parts if len(parts[-1]) > 1 << 16 else [b"".join(parts)]:
                    view = memoryview(part)
                    while view:
                        view = view[os.write(self._fd, view) :]
            except OSError:
                self._gone = True


def hello() -> Dict[str, Any]:
    """Return what the worker says about itself first."""
    import pwd

    uid = os.getuid()
    try:
        user: Optional[str] = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = None
    return {
        "protocol": wire.PROTOCOL,
        "pid": os.getpid(),
        "python": platform.python_version(),
        "boot_id": procfs.boot_id(),
        "uid": uid,
        "user": user,
        "home": os.path.expanduser("~"),
        "hostname": socket.gethostname(),
        "platform": sys.platform,
        "simulated": bool(os.environ.get("VAWS_SIM")),
    }


class Server:
    """Serves one connection until its input ends. Every request gets exactly one answer, if somebody waits for it."""

    def __init__(self, source: BufferedReader[Any], out_fd: int) -> None:
        self._source = source
        self._out_fd = out_fd
        self._writer = Writer(out_fd)
        self._hang_up = select.poll()
        self._hang_up.register(source.fileno(), GONE)
        self._pool = Pool()
        self._lock = threading.Lock()
        self._requests: Dict[int, Request] = {}

    def serve(self) -> int:
        """Greet, serve, and drain everything when the input ends; returns the exit status.

        Jobs go on: then the connection is given up, so that the other end sees it closed, and this process stays.
        """
        self._writer.send_raw(wire.MAGIC)
        self._writer.send({"hello": hello()})
        self._pool.submit(lambda _waker: _tidy_up())
        status = 0
        try:
            while True:
                frame = wire.read_frame(self._read_exactly)
                if frame is None:
                    break
                if frame[0].get("call") == BULK:
                    return self._become_bulk(frame[0])
                self._dispatch(*frame)
        except (wire.FrameError, OSError) as error:
            sys.stderr.write(f"vaws worker: the connection is unusable: {error}\n")
            status = 2
        self._end_all()
        IN_FLIGHT.close()
        if KEEPING.busy():
            self._writer.let_go(self._source.fileno())
            KEEPING.wait()
        return status

    def _become_bulk(self, head: wire.Head) -> int:
        """Hand the connection over to transfers of files; they speak frames of their own from now on."""
        from .engine.artifacts.session import serve_bulk

        return serve_bulk(self._source, self._out_fd, head)

    def _read_exactly(self, count: int) -> Optional[bytes]:
        raw = self._source.read(count)
        if len(raw) == count:
            return raw
        if not raw and count == wire.HEADER_BYTES:
            return None
        raise wire.FrameError("the stream ended inside a frame")

    def _dispatch(self, head: wire.Head, body: bytes) -> None:
        number = head.get("id")
        if not isinstance(number, int):
            raise wire.FrameError("a frame without id")
        if "call" in head:
            # After a freeze: whoever asked has given up, and what was done since must not be done over.
            if not self._hang_up.poll(0):
                self._start(head, number, body)
            return
        with self._lock:
            request = self._requests.get(number)
        if request is None:
            return  # it has just been answered
        if head.get("cancel"):
            request.cancel()
        elif head.get("more") == "stdin":
            request.feed(body, bool(head.get("eof")))

    def _start(self, head: wire.Head, number: int, body: bytes) -> None:
        params, deadline_s = head.get("params") or {}, head.get("deadline_s")
        if not isinstance(params, dict) or not isinstance(deadline_s, (int, float, type(None))):
            self._send_error(number, bad_request("params must be an object and deadline_s a number"))
            return
        request = Request(Call(number, str(head["call"]), params, body, deadline_s), self._writer.send)
        with self._lock:
            known = number in self._requests
            if not known:
                self._requests[number] = request
        if known:
            raise wire.FrameError(f"request id {number} is in use")
        self._pool.submit(lambda waker: self._work(request, waker))

    def _work(self, request: Request, waker: Waker) -> None:
        request.waker = waker
        try:
            result, body = self._answer(request)
            self._forget(request)
            self._writer.send({"id": request.id, "result": result}, body)
        except Refusal as refusal:
            self._forget(request)
            self._send_error(request.id, refusal)
        except OSError as error:
            self._forget(request)
            self._send_error(request.id, from_os_error(error))
        except Exception as error:  # noqa: BLE001 - the boundary: a bug in one method must not end the others
            self._forget(request)
            sys.stderr.write(traceback.format_exc())
            message = f"{request.method} failed inside the worker: {type(error).__name__}: {error}"
            self._send_error(request.id, Refusal("worker_bug", message, "unknown", retry_safe=False))

    def _answer(self, request: Request) -> Answer:
        try:
            method = find(request.method)
        except KeyError:
            raise Refusal("unknown_method", f"the worker has no method {request.method!r}", "caller") from None
        request.check()
        return method(request)

    def _forget(self, request: Request) -> None:
        request.waker = None
        with self._lock:
            self._requests.pop(request.id, None)

    def _send_error(self, number: int, refusal: Refusal) -> None:
        self._writer.send({"id": number, "error": refusal.as_error()})

    def _end_all(self) -> None:
        """Abandon all requests and wait, at most 20 s, until each has drained its family."""
        limit = time.monotonic() + EOF_DRAIN_BOUND_S
        pause = 0.002
        with self._lock:
            for request in self._requests.values():
                request.abandon()
        while time.monotonic() < limit:
            with self._lock:
                if not self._requests:
                    return
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)


def _tidy_up() -> None:
    """End what killed workers left under way, as the connection's first work, and remove a version no longer used."""
    for drained in end_leftovers():
        sys.stderr.write(f"vaws worker: ended {drained.signalled} processes that a killed worker had left\n")
    remove_one_unused(own_home())

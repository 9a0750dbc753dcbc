"""The worker's end of a bulk channel: transfers one after the other until the channel ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
import traceback
from io import BufferedReader
from typing import Any, Callable, Dict, List

from ... import wire
from ...refusal import Refusal, from_os_error
from ...request import Call, Request
from ..confine import confined, policy_of
from .entries import Entry, bytes_of, text_of
from .flow import Place, Watch, receive_tree, send_tree
from .link import ByteQueue, Link, LinkLost, PeerRefused
from .pipe import PipeInbox
from .plan import Wish

LINGER_S = 10.0
PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031  # older Pythons do not name it


def serve_bulk(source: BufferedReader, out_fd: int, first: wire.Head) -> int:
    """Serve transfers, of which ``first`` is the first; returns the process's exit status."""
    outbox = ByteQueue()
    _widen(out_fd)
    writer = threading.Thread(target=_pump_out, args=(out_fd, outbox), name="vaws-bulk-out", daemon=True)
    writer.start()

    def send_chunks(chunks: List[bytes]) -> None:
        outbox.wait_room()
        for chunk in chunks:
            outbox.put(chunk)

    link = Link(PipeInbox(source), send_chunks)
    status = _serve(link, first)
    outbox.close("done")
    writer.join(LINGER_S)
    return status


def _widen(fd: int) -> None:
    """Let more bytes wait in the pipe to the SSH server, which then sends larger packets; not everywhere allowed."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES)


def _pump_out(out_fd: int, outbox: ByteQueue) -> None:
    try:
        while True:
            chunk = outbox.take(None)
            view = memoryview(chunk)
            while view:
                view = view[os.write(out_fd, view) :]
    except (OSError, LinkLost) as error:
        outbox.close(str(error))


def _serve(link: Link, head: wire.Head) -> int:
    try:
        while True:
            _transfer(link, head)
            head, _ = link.receive(None)
    except (LinkLost, PeerRefused, InterruptedError):
        return 0
    except Refusal as refusal:
        return _say_last(link, refusal.as_error())
    except OSError as error:
        return _say_last(link, from_os_error(error).as_error())
    except wire.FrameError as error:
        return _say_last(
            link, Refusal("protocol", f"the transfer cannot be understood: {error}", "transport").as_error()
        )
    except Exception as error:  # noqa: BLE001 - the boundary: a bug must be told to the other end
        sys.stderr.write(traceback.format_exc())
        message = f"the transfer failed inside the worker: {type(error).__name__}: {error}"
        return _say_last(link, Refusal("worker_bug", message, "unknown", retry_safe=False).as_error())


def _transfer(link: Link, head: wire.Head) -> None:
    request = Request(Call(0, "bulk", dict(head.get("params") or {}), b"", None), _drop)
    params = request.params
    path = params.text("path")
    if params.choice("direction", ["push", "pull"]) == "pull":
        real = confined(request, path, for_write=False)
        send_tree(link, bytes_of(real), Watch(), dry_run=params.flag("dry_run"), allowed=_judge(request, real))
        return
    wish = Wish(params.flag("checksum"), params.flag("delete"), params.flag("dry_run"))

    def confine(path: str) -> str:
        return confined(request, path, for_write=True)

    place = Place(path, params.text("name"), confine, _judge(request, path, for_write=True))
    done = receive_tree(link, place, wish, Watch())
    link.send({"done": done})


def _drop(_head: wire.Head, _body: bytes) -> None:
    """Send no event: a transfer has a conversation of its own."""


def _judge(request: Request, root: str, *, for_write: bool = False) -> Callable[[List[Entry]], None]:
    """Return what holds every name of a tree against the paths that the policy denies."""

    def judge(entries: List[Entry]) -> None:
        policy = policy_of(request)
        if policy is not None and policy.denied:
            for entry in entries:
                confined(request, os.path.join(root, text_of(entry.rel)).rstrip("/"), for_write=for_write)

    return judge


def _say_last(link: Link, error: Dict[str, Any]) -> int:
    """Tell the other end why it is over, and let it hang up first, or what it has not read yet would be lost."""
    try:
        link.send({"error": error})
        while True:
            link.inbox.take(LINGER_S)
    except LinkLost:
        return 0

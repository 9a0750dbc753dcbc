"""A reservation from the side of its users: joining it, and writing in its tree."""

from __future__ import annotations

import array
import contextlib
import errno
import json
import os
import socket
from typing import Any, Dict, Generator, List, NamedTuple, Optional, Tuple, cast

from ..refusal import Refusal
from . import status as records
from .choose import Known
from .grant import Link
from .leases import Held
from .spec import existing_folder

SOCKET_NAME = "reservation.sock"
ANSWER_BOUND_S = 5.0
_MESSAGE_BYTES = 1 << 17
_MOST_FDS = 250  # the kernel passes at most 253 at once


class ReservationBusyError(Exception):
    """Devices of the reservation are in use by another launch in it."""

    def __init__(self, users: List[Dict[str, Any]]) -> None:
        super().__init__("the reservation's devices are in use")
        self.users = users


class Reply(NamedTuple):
    """An open connection, the answer, and the descriptors that came with it."""

    sock: socket.socket
    answer: Dict[str, Any]
    fds: List[int]


@contextlib.contextmanager
def short_path(folder: str) -> Generator[str, None, None]:
    """Yield a path of the folder's socket that is short enough for the kernel, however deep the folder is."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET_NAME}"
    finally:
        os.close(fd)


def ask(execution_id: str, question: Dict[str, Any]) -> Optional[Reply]:
    """Ask the supervisor of a reservation; None when it is not there yet, as while it is queued.

    Raises: Refusal ``not_found``, ``reservation_gone``.
    """
    folder = existing_folder(execution_id)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(ANSWER_BOUND_S)
        with short_path(folder) as path:
            sock.connect(path)
        sock.sendall(json.dumps(question).encode("ascii"))
        answer, fds = _receive(sock)
    except OSError as error:
        sock.close()
        if _not_yet(folder, execution_id):
            return None
        raise _gone(execution_id, error.strerror or "it does not answer") from None
    return Reply(sock, answer, fds)


def _not_yet(folder: str, execution_id: str) -> bool:
    found = records.observe(folder, execution_id)
    return found["state"] in ("queued", "starting") and (found["supervised"] or found["boot_id"] is None)


def _gone(execution_id: str, why: str) -> Refusal:
    hint = "Take a new reservation."
    return Refusal("reservation_gone", f"the reservation {execution_id} is not in force: {why}", "caller", hint=hint)


def _receive(sock: socket.socket) -> Tuple[Dict[str, Any], List[int]]:
    numbers = array.array("i")
    size = socket.CMSG_SPACE(_MOST_FDS * numbers.itemsize)
    raw, extra, _flags, _address = sock.recvmsg(_MESSAGE_BYTES, size, socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in extra:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    try:
        return cast("Dict[str, Any]", json.loads(raw.decode("utf-8"))), list(numbers)
    except ValueError:
        for fd in numbers:
            os.close(fd)
        raise OSError(errno.ECONNRESET, "it closed the connection") from None


def send(sock: socket.socket, answer: Dict[str, Any], fds: List[int]) -> None:
    """Send an answer with descriptors. Raises: OSError."""
    if len(fds) > _MOST_FDS:
        raise OSError(errno.EMSGSIZE, f"{len(fds)} leases cannot be passed at once")
    extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([json.dumps(answer).encode("ascii")], extra)


class Joining(NamedTuple):
    """What a launch wants of a reservation: ``ids`` None is all its devices; ``devices`` False none of them."""

    user: str
    devices: bool
    ids: Optional[List[int]]
    git_dirs: List[str]


def join(execution_id: str, wanted: Joining) -> Optional[Link]:
    """Enter a reservation; None while the reservation itself is queued. Raises: ReservationBusyError, Refusal."""
    question = {"want": "launch", "pid": os.getpid(), **wanted._asdict()}
    reply = ask(execution_id, question)
    if reply is None:
        return None
    answer = reply.answer
    if not answer.get("ok"):
        reply.sock.close()
        if answer.get("busy"):
            raise ReservationBusyError(answer["busy"])
        raise Refusal(str(answer.get("code")), str(answer.get("message")), "caller")
    return Link(
        fd=reply.sock.detach(),
        devices=[Known(**fields) for fields in answer["devices"]],
        ports=answer["ports"],
        git_dirs=answer["git_dirs"],
        held=_sorted_out(answer["held"], reply.fds),
    )


def _sorted_out(counts: List[Tuple[str, int]], fds: List[int]) -> List[Held]:
    held: List[Held] = []
    at = 0
    for key, count in counts:
        held.append(Held(key, fds[at : at + count]))
        at += count
    if at != len(fds):
        for fd in fds:
            os.close(fd)
        raise Refusal("reservation_gone", "not all leases of the reservation could be passed on")
    return held


@contextlib.contextmanager
def tree_of(execution_id: str, git_dir: str, who: str) -> Generator[None, None, None]:
    """Write in a tree that a reservation holds exclusively, while no launch and no other writer is in it.

    Raises: Refusal ``tree_locked``, ``reservation_gone``.
    """
    reply = ask(execution_id, {"want": "tree", "git_dir": git_dir, "user": who, "pid": os.getpid()})
    if reply is None:
        raise _gone(execution_id, "it is still waiting for its turn")
    try:
        if not reply.answer.get("ok"):
            users = reply.answer.get("busy") or []
            details = {"holders": users} if users else None
            raise Refusal("tree_locked", str(reply.answer.get("message")), details=details)
        yield
    finally:
        reply.sock.close()
        for fd in reply.fds:
            os.close(fd)

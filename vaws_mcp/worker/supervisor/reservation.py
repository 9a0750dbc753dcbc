"""A hold: it keeps devices, ports and trees while nothing runs, and hands their leases to the launches in it.

A launch gets the very descriptors, so whatever happens to the hold, a lease lives until its last user has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, cast

from . import borrow
from . import status as records
from .grant import Grant
from .idle import Idle
from .signals import Signals
from .wishes import HoldWish

_LOOK_EVERY_S = 5.0
_MESSAGE_BYTES = 1 << 16


class User(NamedTuple):
    """One connection that uses the reservation: a launch with its devices, or a writer in a tree."""

    name: str
    pid: Any
    since: float
    logics: Set[int]
    git_dirs: Set[str]
    writes: bool

    def as_json(self) -> Dict[str, Any]:
        """Return what others are told."""
        return {"execution_id": self.name, "pid": self.pid, "since": self.since}


class Reservation:
    """The hold while it is in force."""

    def __init__(self, folder: str, grant: Grant, signals: Signals, idle: Idle, look: Callable[[], None]) -> None:
        self._grant = grant
        self._signals = signals
        self._look = look
        self._listener = _listen(folder)
        self._open: Dict[int, socket.socket] = {self._listener.fileno(): self._listener}
        self._users: Dict[int, User] = {}
        self._idle = idle
        self._closing = False

    def keep(self, wish: HoldWish) -> str:
        """Hold until told to stop (``cancelled``), idle (``idle``) or the time is over (``over``)."""
        begun = time.monotonic()
        while True:
            if self._signals.stop_asked:
                return "cancelled"
            if self._users:
                self._idle.used()
            left = self._idle.left()
            if left <= 0:
                return "idle"
            if wish.for_s is not None:
                left = min(left, wish.for_s - (time.monotonic() - begun))
                if left <= 0:
                    return "over"
            self._serve(min(left, _LOOK_EVERY_S))
            self._look()

    def close(self, bound_s: Optional[float]) -> List[Dict[str, Any]]:
        """Let nobody in any more and wait for those inside to end; returns who is still there after ``bound_s``.

        Without a bound it waits until it is told to stop.
        """
        self._closing = True
        limit = None if bound_s is None else time.monotonic() + bound_s
        while self._users:
            if (limit is None and self._signals.stop_asked) or (limit is not None and time.monotonic() >= limit):
                break
            self._serve(_LOOK_EVERY_S if limit is None else min(_LOOK_EVERY_S, max(0.0, limit - time.monotonic())))
            self._look()
        left = [user.as_json() for user in self._users.values()]
        for sock in self._open.values():
            sock.close()
        return left

    def _serve(self, seconds: float) -> None:
        for fd in self._signals.wait(seconds, list(self._open)):
            if fd == self._listener.fileno():
                self._accept()
            else:
                self._answer(fd)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            sock.settimeout(borrow.ANSWER_BOUND_S)
            self._open[sock.fileno()] = sock

    def _answer(self, fd: int) -> None:
        sock = self._open[fd]
        try:
            raw = sock.recv(_MESSAGE_BYTES)
            if raw and fd not in self._users:
                question = cast("Dict[str, Any]", json.loads(raw.decode("utf-8")))
                self._act(sock, question)
                return
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # whatever it was, it is not one of ours
        self._leave(fd)

    def _leave(self, fd: int) -> None:
        self._open.pop(fd).close()
        if self._users.pop(fd, None) is not None:
            self._idle.used()

    def _act(self, sock: socket.socket, question: Dict[str, Any]) -> None:
        want = question["want"]
        if self._closing:
            message = "the reservation is ending"
            borrow.send(sock, {"ok": False, "code": "reservation_gone", "message": message}, [])
        elif want == "tree":
            self._admit_writer(sock, question)
        else:
            self._admit_launch(sock, question)

    def _admit_launch(self, sock: socket.socket, question: Dict[str, Any]) -> None:
        devices = {device.logic: device for device in self._grant.devices}
        ids: Optional[List[int]] = question["ids"]
        wanted = (list(devices) if ids is None else ids) if question["devices"] else []
        missing = [logic for logic in wanted if logic not in devices]
        if missing or (question["devices"] and not wanted):
            have = ", ".join(str(logic) for logic in devices) or "none"
            message = f"the reservation has no device {', '.join(map(str, missing))}; it has {have}"
            borrow.send(sock, {"ok": False, "code": "device_unknown", "message": message}, [])
            return
        user = _user(question, set(wanted), set(question["git_dirs"]), writes=False)
        if self._refused(sock, user):
            return
        keys = {key for logic in wanted for key in devices[logic].keys}
        held = [
            (lease.key, lease.fds) for lease in self._grant.held if lease.key in keys or lease.key.startswith("port-")
        ]
        held += [("tree:" + tree.git_dir, tree.fds) for tree in self._grant.trees]
        answer = {
            "ok": True,
            "devices": [devices[logic]._asdict() for logic in wanted],
            "ports": self._grant.ports,
            "git_dirs": [tree.git_dir for tree in self._grant.trees],
            "held": [(key, len(fds)) for key, fds in held],
        }
        self._enter(sock, user, answer, [fd for _, fds in held for fd in fds])

    def _admit_writer(self, sock: socket.socket, question: Dict[str, Any]) -> None:
        tree = next((tree for tree in self._grant.trees if tree.git_dir == question["git_dir"]), None)
        if tree is None or tree.mode != "exclusive":
            message = f"the reservation does not hold {question['git_dir']} exclusively"
            borrow.send(sock, {"ok": False, "message": message}, [])
            return
        user = _user(question, set(), {tree.git_dir}, writes=True)
        if not self._refused(sock, user):
            self._enter(sock, user, {"ok": True}, tree.fds)

    def _enter(self, sock: socket.socket, user: User, answer: Dict[str, Any], fds: List[int]) -> None:
        self._users[sock.fileno()] = user
        try:
            borrow.send(sock, answer, fds)
        except OSError:
            self._leave(sock.fileno())

    def _refused(self, sock: socket.socket, user: User) -> bool:
        busy = [other.as_json() for other in self._users.values() if _exclude(user, other)]
        if busy:
            names = ", ".join(str(entry["execution_id"]) for entry in busy)
            borrow.send(sock, {"ok": False, "busy": busy, "message": f"the reservation is in use by {names}"}, [])
        return bool(busy)


def _user(question: Dict[str, Any], logics: Set[int], git_dirs: Set[str], *, writes: bool) -> User:
    return User(str(question["user"]), question.get("pid"), records.now(), logics, git_dirs, writes)


def _exclude(one: User, other: User) -> bool:
    """Tell whether two users may not be inside together: the same device, or a writer beside anybody in its tree.

    A launch on devices may run from any of the reservation's trees, whether it says so or not.
    """
    if one.logics & other.logics:
        return True
    if not (one.writes or other.writes):
        return False
    return bool(one.git_dirs & other.git_dirs) or bool(one.logics) or bool(other.logics)


def _listen(folder: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, borrow.SOCKET_NAME))
        with borrow.short_path(folder) as path:
            listener.bind(path)
        listener.listen(64)
        listener.settimeout(borrow.ANSWER_BOUND_S)
    except BaseException:
        listener.close()
        raise
    return listener

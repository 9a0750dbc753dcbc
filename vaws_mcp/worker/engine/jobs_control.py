"""How other workers reach the standard input of a job: over a socket in its directory they get the descriptor itself.

A client sends one byte and gets one back. ``w``: ``o`` and the descriptor, ``b`` while older input waits, ``c`` when
the input is closed. ``e``: the input ends after what was written, ``k``.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
from typing import Callable, Optional, Tuple

SOCKET = "control.sock"
_PEER_BOUND_S = 1.0

Duplicate = Callable[[], Tuple[bytes, int]]


class Control:
    """The keeper's end."""

    def __init__(self, folder: str, duplicate: Duplicate, end: Callable[[], None]) -> None:
        self._duplicate = duplicate
        self._end = end
        self._path = os.path.join(folder, SOCKET)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short(folder) as short:
                self._socket.bind(short)
            self._socket.listen(16)
            self._socket.setblocking(False)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor that is readable when somebody asks."""
        return self._socket.fileno()

    def serve(self) -> None:
        """Answer one client; a client that misbehaves is dropped."""
        try:
            peer, _ = self._socket.accept()
        except OSError:
            return
        with peer, contextlib.suppress(OSError):
            peer.settimeout(_PEER_BOUND_S)
            wish = peer.recv(1)
            if wish == b"e":
                self._end()
                peer.sendall(b"k")
            elif wish == b"w":
                self._hand_out(peer)

    def _hand_out(self, peer: socket.socket) -> None:
        state, fd = self._duplicate()
        if fd < 0:
            peer.sendall(state)
            return
        try:
            peer.sendmsg([state], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        finally:
            os.close(fd)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._socket.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def ask(folder: str, wish: bytes, bound_s: float) -> Tuple[bytes, int]:
    """Ask the keeper of a job; returns its answer and a descriptor, or -1.

    Raises: OSError when nobody answers.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(max(0.01, bound_s))
        with _short(folder) as short:
            peer.connect(short)
        peer.sendall(wish)
        descriptors = array.array("i")
        state, extra, _, _ = peer.recvmsg(1, socket.CMSG_LEN(descriptors.itemsize))
        for level, kind, data in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors.frombytes(data[: descriptors.itemsize])
        fd = descriptors[0] if descriptors else -1
        if fd >= 0:
            os.set_inheritable(fd, False)
        return state, fd


class _short:  # noqa: N801 - used like a function
    """The socket's path through a descriptor of its directory, because a socket's path may have only 107 bytes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._fd: Optional[int] = None

    def __enter__(self) -> str:
        path = os.path.join(self._folder, SOCKET)
        if len(os.fsencode(path)) < 100:
            return path
        self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._fd}/{SOCKET}"

    def __exit__(self, *_: object) -> None:
        if self._fd is not None:
            os.close(self._fd)

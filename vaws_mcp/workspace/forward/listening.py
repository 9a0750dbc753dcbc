"""Where a forward listens on this machine: a loopback port, or a Unix socket that only its owner may use."""

import contextlib
import errno
import os
import shutil
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import SocketAttribute
from anyio.streams.stapled import MultiListener

from vaws_mcp.core.failures import Blocked, Failure, Refused
from vaws_mcp.worker.facts import procfs, sockets

LOOPBACK = "127.0.0.1"
Listener = MultiListener[anyio.abc.SocketStream] | anyio.abc.SocketListener


@dataclass
class Place:
    """A listener and how to name it. ``inode`` identifies the socket file that is ours to remove."""

    listener: Listener
    local: str
    url: str | None
    path: Path | None = None
    inode: int | None = None

    def remove(self) -> None:
        """Remove the socket file, if it still is ours."""
        if self.path is not None:
            with contextlib.suppress(OSError):
                if self.path.lstat().st_ino == self.inode:
                    self.path.unlink()


async def listen_port(port: int) -> Place:
    """Listen on a loopback port; 0 takes a free one.

    Raises: Blocked ``port_in_use`` that names the owner if it can be found. Refused ``port_forbidden``.
    """
    try:
        listener = await anyio.create_tcp_listener(local_host=LOOPBACK, local_port=port, backlog=128)
    except OSError as error:
        raise _port_problem(port, error) from None
    found = int(listener.extra(SocketAttribute.local_port))  # noqa: S610 - not a database
    return Place(listener, f"{LOOPBACK}:{found}", f"http://{LOOPBACK}:{found}/")


def _port_problem(port: int, error: OSError) -> Failure:
    if error.errno == errno.EADDRINUSE:
        return Blocked(
            "port_in_use",
            f"port {port} of this machine is in use{_owner(port)}",
            layer="local",
            hint="Leave local_port out to take a free one.",
            retry_safe=True,
        )
    return Refused(
        "port_forbidden",
        f"cannot listen on port {port} of this machine: {error.strerror}",
        layer="local",
        hint="Leave local_port out to take a free one.",
    )


def _owner(port: int) -> str:
    """Return `` by process 12 (name)``, or nothing when it cannot be found out."""
    table = procfs.scan()
    owners = sockets.owners(sockets.listeners().get(port, ()), table)
    pids = sorted({pid for found in owners.values() for pid in found})
    return f" by process {pids[0]} ({table[pids[0]].comm})" if pids else ""


async def listen_socket(given: str) -> Place:
    """Listen on a Unix socket with mode 0600. A socket file that nobody listens on any more is taken over.

    Raises: Blocked ``socket_in_use``. Refused ``socket_path_invalid``.
    """
    path = Path(given).expanduser().absolute()  # noqa: ASYNC240 - one look at the local disk
    _clear_the_way(path)
    try:
        # Bound inside a private directory, so that nobody can connect before the mode is set.
        private = Path(tempfile.mkdtemp(prefix=".vaws-", dir=path.parent))
        try:
            listener = await anyio.create_unix_listener(private / "s", mode=0o600, backlog=128)
            try:
                os.link(private / "s", path)
            except OSError:
                await listener.aclose()
                raise
        finally:
            shutil.rmtree(private, ignore_errors=True)
    except OSError as error:
        why = error.strerror or str(error)
        raise Refused(
            "socket_path_invalid",
            f"cannot listen on {path}: {why}",
            layer="local",
            hint="Give a path of less than 90 bytes in a directory that exists.",
        ) from None
    return Place(listener, str(path), None, path, path.lstat().st_ino)


def _clear_the_way(path: Path) -> None:
    if not path.is_socket():
        if path.exists() or path.is_symlink():
            raise Refused(
                "socket_path_invalid", f"{path} exists and is no socket", layer="local", hint="Choose another."
            )
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except OSError:
            pass
    raise Blocked("socket_in_use", f"{path} is in use by another process", layer="local", hint="Choose another path.")

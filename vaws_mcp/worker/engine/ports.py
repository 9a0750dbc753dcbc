"""``ports`` and ``free_port``: who listens where."""

from __future__ import annotations

import errno
import socket
from typing import Any, Dict, List, Optional, Set

from ..facts import procfs, sockets
from ..refusal import bad_request
from ..request import Answer, Request


def ports(request: Request) -> Answer:
    """Answer for each port whether somebody listens on it, which processes in scope, and whether it can be bound."""
    wanted = request.params.integers("ports")
    if not wanted or not all(1 <= port <= 65535 for port in wanted):
        raise bad_request("ports: a list of ports between 1 and 65535 is needed")
    return {"ports": {str(port): facts for port, facts in look_up(wanted).items()}}, b""


def look_up(wanted: List[int]) -> Dict[int, Dict[str, Any]]:
    """Return for each port: listening, owner pids in scope and their sessions, bindable."""
    listening = sockets.listeners()
    inodes: Set[int] = set()
    for port in wanted:
        inodes.update(listening.get(port, ()))
    table = procfs.scan() if inodes else {}
    owners = sockets.owners(inodes, table) if inodes else {}
    found: Dict[int, Dict[str, Any]] = {}
    for port in wanted:
        own = listening.get(port, set())
        pids = sorted({pid for inode in own for pid in owners.get(inode, ())})
        found[port] = {
            "listening": bool(own),
            "pids": pids,
            "sids": sorted({table[pid].sid for pid in pids}),
            "bindable": is_bindable(port),
        }
    return found


def is_bindable(port: int) -> Optional[bool]:
    """Tell whether a service could listen on the loopback port now; None when that cannot be found out."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return False if error.errno in (errno.EADDRINUSE, errno.EACCES) else None
    return True


def free_port(_request: Request) -> Answer:
    """Answer with a loopback port that was free just now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return {"port": int(probe.getsockname()[1])}, b""

"""Listening TCP ports and the processes that own them.

Source: proc(5), ``/proc/net/tcp`` and ``/proc/net/tcp6``; state 0A is LISTEN.
"""

from __future__ import annotations

import os
from typing import Dict, Iterable, List, Set

from . import procfs


def parse_listeners(text: str) -> Dict[int, Set[int]]:
    """Return the socket inodes by port of all listening sockets in one table."""
    found: Dict[int, Set[int]] = {}
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != "0A":
            continue
        try:
            port = int(fields[1].rpartition(":")[2], 16)
            inode = int(fields[9])
        except ValueError:
            continue
        found.setdefault(port, set()).add(inode)
    return found


def listeners() -> Dict[int, Set[int]]:
    """Return the socket inodes by port of everything that listens in this network namespace, IPv4 and IPv6."""
    found: Dict[int, Set[int]] = {}
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        raw = procfs.read_small(path, 64 << 20)
        for port, inodes in parse_listeners((raw or b"").decode("ascii", "replace")).items():
            found.setdefault(port, set()).update(inodes)
    return found


def owners(inodes: Iterable[int], pids: Iterable[int]) -> Dict[int, List[int]]:
    """Return by inode which of ``pids`` hold the socket; a process we may not look into holds none."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    found: Dict[int, List[int]] = {}
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            try:
                inode = wanted.get(os.readlink(folder + "/" + name))
            except OSError:
                continue
            if inode is not None and pid not in found.setdefault(inode, []):
                found[inode].append(pid)
    return found

"""How far a lease reaches: proven from what the kernel shows, and ``container`` whenever there is no proof.

``host`` means: the network namespace is the machine's first one, so that the abstract sockets of all supervisors with
that scope exclude each other. A shared lease directory alone does not prove it, since others on the machine may not
have it; it is told in the reason.

Source: the sysctls in ``_FIRST_ONLY`` are registered for the kernel's first network namespace alone
(net/core/sysctl_net_core.c), and ``/proc/sys/net`` shows those of the reader's namespace. mountinfo: proc(5).
"""

from __future__ import annotations

import os
from typing import NamedTuple, Optional, Tuple

from ..facts import procfs

_FIRST_ONLY = ("/proc/sys/net/core/netdev_max_backlog", "/proc/sys/net/core/netdev_budget")
_PRIVATE_TYPES = frozenset(("overlay", "tmpfs", "ramfs", "fuse-overlayfs", "aufs"))


class Mount(NamedTuple):
    """The mount that holds a path: where it is mounted, which part of its file system, and of which type."""

    point: str
    root: str
    kind: str


class Scope(NamedTuple):
    """``host`` or ``container``, and why."""

    scope: str
    why: str


def unescape(field: str) -> str:
    """Undo the octal escapes of mountinfo."""
    if "\\" not in field:
        return field
    parts = field.split("\\")
    return parts[0] + "".join(chr(int(part[:3], 8)) + part[3:] for part in parts[1:] if part[:3].isdigit())


def mount_of(path: str, mountinfo: str) -> Optional[Mount]:
    """Return the mount that holds an absolute path; of several at one point the last covers the others."""
    best: Optional[Mount] = None
    for line in mountinfo.splitlines():
        left, dash, right = line.partition(" - ")
        fields = left.split(" ")
        if not dash or len(fields) < 6:
            continue
        mount = Mount(unescape(fields[4]), unescape(fields[3]), right.split(" ")[0])
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def is_shared(path: str, mount: Optional[Mount]) -> Tuple[bool, str]:
    """Tell whether a directory is the host's own one at the same path, and in words what was seen."""
    if mount is None:
        return False, "the mount of the lease directory could not be read"
    if mount.kind in _PRIVATE_TYPES:
        return False, f"the lease directory is on {mount.kind}, which may be this container's own"
    rest = path[len(mount.point.rstrip("/")) :]
    source = mount.root.rstrip("/") + rest
    if source == path or (mount.point != "/" and source == "/" + path.lstrip("/").partition("/")[2]):
        return True, f"the lease directory is shared ({mount.kind})"
    return False, f"the lease directory comes from {source} of another place"


def judge(first_network: Optional[bool], shared: Tuple[bool, str]) -> Scope:
    """Judge the scope from the two facts."""
    if first_network:
        return Scope("host", f"the network namespace is the machine's own; {shared[1]}")
    if first_network is None:
        network = "whether the network namespace is the machine's own could not be found out"
    else:
        network = "the network namespace is private"
    reach = "leases exclude only those who share it" if shared[0] else "leases exclude only this container"
    return Scope("container", f"{network}; {shared[1]}; {reach}")


def in_first_network() -> Optional[bool]:
    """Tell whether this process is in the kernel's first network namespace; None when that cannot be seen."""
    if not os.path.isdir(os.path.dirname(_FIRST_ONLY[0])):
        return None
    return all(os.path.exists(path) for path in _FIRST_ONLY)


def prove(folder: Optional[str], trouble: Optional[str] = None) -> Scope:
    """Return the scope of leases taken now; ``folder`` is None when no directory is usable, for the reason given."""
    if folder is None:
        return judge(in_first_network(), (False, f"no lease directory is usable ({trouble})"))
    raw = procfs.read_small("/proc/self/mountinfo", 16 << 20)
    real = os.path.realpath(folder)
    mount = None if raw is None else mount_of(real, raw.decode("utf-8", "surrogateescape"))
    return judge(in_first_network(), is_shared(real, mount))


def network_namespace() -> str:
    """Return the number of the network namespace, which tells ports of different containers apart."""
    return _namespace("net")


def mount_namespace() -> str:
    """Return the number of the mount namespace, which tells containers apart."""
    return _namespace("mnt")


def _namespace(kind: str) -> str:
    try:
        return os.readlink("/proc/self/ns/" + kind).partition("[")[2].rstrip("]")
    except OSError:
        return "unknown"

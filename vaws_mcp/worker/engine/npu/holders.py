"""Who the processes on a device are, as far as this pid namespace shows it.

npu-smi prints pids of the host. They name processes here only where this is the host's pid namespace; in a container
only the column of container pids does.
"""

from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Optional

from ...facts import procfs
from ...facts.npu.models import Process
from ..facts_probe import user_name

MARKER = "VAWS_EXECUTION_ID"
_HOST_NAMESPACE = "pid:[4026531836]"  # the number of the first pid namespace is fixed in the kernel
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)", re.M)


class Holder(NamedTuple):
    """A process on a device, as far as it can be resolved here.

    ``pid`` is the number npu-smi prints (of the host); ``local_pid`` is the process in this pid namespace, if found.
    """

    pid: int
    local_pid: Optional[int] = None
    name: Optional[str] = None
    memory_mb: Optional[int] = None
    user: Optional[str] = None
    container: Optional[str] = None
    execution_id: Optional[str] = None


def sees_host() -> bool:
    """Tell whether pids of the host are pids here. The simulated container prints pids of its own machine."""
    if os.environ.get("VAWS_SIM"):
        return True
    try:
        return os.readlink("/proc/self/ns/pid") == _HOST_NAMESPACE
    except OSError:
        return False


def holder_of(process: Process, host: bool) -> Holder:
    """Return what is known of a process on a device. ``host`` is the answer of ``sees_host``."""
    plain = Holder(process.pid, None, process.name, process.memory_mb)
    local = process.pid if host else process.container_pid
    seen = None if local is None else procfs.read_process(local)
    if seen is None or not (host or _is_same(process, seen)):
        return plain
    return plain._replace(
        local_pid=seen.pid,
        name=process.name or seen.comm,
        user=user_name(seen.uid) or str(seen.uid),
        container=_container(seen.pid),
        execution_id=_execution(seen.pid),
    )


def listed(processes: List[Process]) -> List[Holder]:
    """Return the holders of one device."""
    host = sees_host()
    return [holder_of(process, host) for process in processes]


def _is_same(process: Process, seen: procfs.Process) -> bool:
    """Tell whether a pid of some container is that of this one: another container has the same numbers."""
    if process.name is not None:
        return seen.comm.replace(":", "")[:13] == process.name.replace(":", "")[:13]
    folder = f"/proc/{seen.pid}/fd"
    try:
        return any(os.readlink(f"{folder}/{name}").startswith("/dev/davinci") for name in os.listdir(folder))
    except OSError:
        return False


def _container(pid: int) -> Optional[str]:
    raw = procfs.read_small(f"/proc/{pid}/cgroup") or b""
    match = _CONTAINER.search(raw.decode("ascii", "replace"))
    return match.group(1)[:12] if match else None


def _execution(pid: int) -> Optional[str]:
    raw = procfs.read_small(f"/proc/{pid}/environ") or b""
    return procfs.parse_environment(raw).get(MARKER)

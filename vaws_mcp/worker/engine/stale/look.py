"""Read from ``/proc`` and from the records what the judgement needs."""

from __future__ import annotations

import os
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set

from ...facts import procfs
from ...facts.procfs import Identity, Process
from ...refusal import Refusal
from ...supervisor import spec as specs
from ...supervisor import status as records
from .judge import Facts, Seen, Verdict, is_vllm, judge

_ARGS_BYTES = 1 << 16


class Live(NamedTuple):
    """The live executions of this user: their ids, and the processes known to belong to them."""

    ids: FrozenSet[str]
    members: FrozenSet[Identity]


def verdicts() -> List[Verdict]:
    """Return the verdict of every process as things are now."""
    table = _all_processes()
    args = {pid: procfs.title(pid, _ARGS_BYTES) for pid in table}
    suspects = [process for process in table.values() if is_vllm(process, args[process.pid])]
    asked = _with_ancestors(suspects, table)
    live = live_executions(table) if suspects else Live(frozenset(), frozenset())
    marker = procfs.scope()
    seen = [_seen(process, args[process.pid], marker, asked=process.pid in asked) for process in table.values()]
    return judge(seen, Facts(os.getpid(), os.geteuid(), _namespace(os.getpid()), live.ids, live.members))


def _seen(process: Process, args: str, marker: Optional[bytes], *, asked: bool) -> Seen:
    """Return a process with all that the tests need, or with what is read anyway when nobody asks about it."""
    if not asked:
        return Seen(process, args, None, None)
    namespace = _namespace(process.pid) if _in_scope(process.pid, marker) else None
    return Seen(_with_user(process), args, namespace, _markers(process.pid))


def _all_processes() -> Dict[int, Process]:
    """Return all processes, also those out of scope: they may be ancestors."""
    found = (procfs.read_process(pid) for pid in procfs.pids())
    return {process.pid: process for process in found if process is not None}


def _with_ancestors(suspects: List[Process], table: Dict[int, Process]) -> Set[int]:
    pids: Set[int] = set()
    for process in suspects:
        pid = process.pid
        while pid in table and pid not in pids:
            pids.add(pid)
            pid = table[pid].ppid
    return pids


def _in_scope(pid: int, marker: Optional[bytes]) -> bool:
    return marker is None or procfs.has_variable(pid, marker)


def _with_user(process: Process) -> Process:
    """Return the process with its real user: the files of one that changed its user may still belong to root.

    The user is -1, which nobody has, when it cannot be read or the effective user is another one.
    """
    raw = procfs.read_small(f"/proc/{process.pid}/status") or b""
    for line in raw.splitlines():
        fields = line.split()
        if len(fields) == 5 and fields[0] == b"Uid:":
            same = fields[1] == fields[2] == fields[3]
            return process._replace(uid=int(fields[1]) if same else -1)
    return process._replace(uid=-1)


def _namespace(pid: int) -> Optional[str]:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def _markers(pid: int) -> Optional[FrozenSet[str]]:
    """Return the execution ids in the environment of a process; None when it cannot be read."""
    raw = procfs.read_small(f"/proc/{pid}/environ")
    if raw is None:
        return None
    start = specs.MARKER.encode("ascii") + b"="
    values = (item[len(start) :] for item in raw.split(b"\0") if item.startswith(start))
    return frozenset(value.decode("utf-8", "replace") for value in values)


def live_executions(table: Dict[int, Process]) -> Live:
    """Return the executions that have a living supervisor or a living first process.

    One whose record cannot be read may be such a one, and counts as live.
    """
    ids: Set[str] = set()
    members: Set[Identity] = set()
    try:
        names = os.listdir(specs.folder_of_all())
    except OSError:
        names = []
    for name in names:
        if name.startswith("."):
            continue
        try:
            status = records.observe(specs.existing_folder(name), name)
        except (Refusal, OSError):
            ids.add(name)
            continue
        supervisor, root = (records.as_identity(status.get(key)) for key in ("supervisor", "root"))
        if status["state"] in records.FINAL_STATES or not (_supervised(status) or _lives(root)):
            continue
        ids.add(name)
        members.update(identity for identity in (supervisor, root) if identity is not None)
        members.update(_session(root, table))
    return Live(frozenset(ids), frozenset(members))


def _session(root: Optional[Identity], table: Dict[int, Process]) -> Set[Identity]:
    """Return the processes in the session that the first process of an execution leads."""
    if root is None:
        return set()
    leader = table.get(root.pid)
    if leader is not None and leader.identity != root:
        return set()  # a foreign process has got the pid, and with it the session id
    return {process.identity for process in table.values() if process.sid == root.pid}


def _supervised(status: records.Status) -> bool:
    """Tell whether a supervisor is there, or may still be on its way."""
    return bool(status["supervised"]) or status.get("supervisor") is None


def _lives(root: Optional[Identity]) -> bool:
    return root is not None and procfs.is_alive(root)

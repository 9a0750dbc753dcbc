"""Which processes are stale. Pure: what ``/proc`` and the records say comes in, verdicts with reasons go out.

A process is stale only if all five tests hold; each test below returns why it does not hold, or None.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ...facts.procfs import Identity, Process

_PREFIX = "VLLM::"
# As a title, and as the kernel's 15 characters of it.
_TITLES = re.compile(r"VLLM::(EngineCore|Worker|EngineCor\Z)")
_FORBIDDEN = ("sshd", "vaws")
_API_SERVER = "VLLM::APIServer"


class Seen(NamedTuple):
    """A process with what the tests need. ``args`` is the command line as one string.

    ``pid_namespace`` is None when it could not be read, or lies outside of what this worker may touch. ``markers`` are
    the execution ids in its environment, None when that could not be read.
    """

    process: Process
    args: str
    pid_namespace: Optional[str]
    markers: Optional[FrozenSet[str]]


class Facts(NamedTuple):
    """What the tests hold processes against. ``members`` belong to live executions by record, session or ancestry."""

    own_pid: int
    uid: int
    pid_namespace: Optional[str]
    live: FrozenSet[str]
    members: FrozenSet[Identity]


class Verdict(NamedTuple):
    """Whether a process is stale, else the number of the first test that does not hold, and why."""

    seen: Seen
    matched: bool
    test: Optional[int]
    reason: str


def is_vllm(process: Process, args: str) -> bool:
    """Tell whether the process carries any title of vLLM."""
    return process.comm.startswith(_PREFIX) or args.startswith(_PREFIX)


def judge(processes: Iterable[Seen], facts: Facts) -> List[Verdict]:
    """Return a verdict for every living process; zombies get none, and are only links to the ancestors of others."""
    table = {seen.process.pid: seen for seen in processes}
    own_line = frozenset(seen.process.pid for seen in _line(facts.own_pid, table))
    living = [seen for _pid, seen in sorted(table.items()) if seen.process.alive]
    return [_verdict(_Case(seen, table, facts, own_line)) for seen in living]


def topmost(processes: Iterable[Process]) -> List[Process]:
    """Return those processes whose parent is not among them."""
    listed = list(processes)
    pids = {process.pid for process in listed}
    return [process for process in listed if process.ppid not in pids]


class _Case(NamedTuple):
    seen: Seen
    table: Dict[int, Seen]
    facts: Facts
    own_line: FrozenSet[int]

    def line(self) -> Iterator[Seen]:
        """Yield the process itself and its ancestors, from below."""
        return _line(self.seen.process.pid, self.table)


def _line(pid: int, table: Dict[int, Seen]) -> Iterator[Seen]:
    visited = set()  # a table read while processes come and go may hold a circle
    while pid in table and pid not in visited:
        visited.add(pid)
        yield table[pid]
        pid = table[pid].process.ppid


def _verdict(case: _Case) -> Verdict:
    for number, test in _TESTS:
        why = test(case)
        if why is not None:
            return Verdict(case.seen, False, number, why)
    return Verdict(case.seen, True, None, "an engine or worker of vLLM without a living server")


def _name(case: _Case) -> Optional[str]:
    seen = case.seen
    if _TITLES.match(seen.process.comm) or _TITLES.match(seen.args):
        return None
    return "its name is no title of an engine or worker of vLLM"


def _protected(case: _Case) -> Optional[str]:
    pid = case.seen.process.pid
    if pid == 1:
        return "it is PID 1"
    if pid in case.own_line:
        return "it is the worker or one of its ancestors"
    text = f"{case.seen.process.comm} {case.seen.args}".lower()
    for word in _FORBIDDEN:
        if word in text:
            return f"its name or arguments contain {word}"
    return None


def _of_execution(case: _Case) -> Optional[str]:
    if case.seen.markers is None:
        return "its environment cannot be read, so it may belong to a live execution"
    for seen in case.line():
        itself = seen is case.seen
        marks = sorted((seen.markers or frozenset()) & case.facts.live)
        if marks:
            whose = "it" if itself else f"its ancestor {seen.process.pid}"
            return f"{whose} carries the mark of live execution {marks[0]}"
        if seen.process.identity in case.facts.members:
            return "it belongs to a live execution" if itself else f"its ancestor {seen.process.pid} does"
        if not itself and _is_supervisor(seen):
            return f"its ancestor {seen.process.pid} is the supervisor of an execution"
    return None


def _is_supervisor(seen: Seen) -> bool:
    words = seen.args.split()
    return "supervise" in words and any("vaws" in word for word in words)


def _served(case: _Case) -> Optional[str]:
    """Look for whoever serves with the process, or started it and lives."""
    top = case.seen
    for seen in case.line():
        if seen.process.alive and _is_server(seen):
            return f"its server {seen.process.pid} lives"
        if is_vllm(seen.process, seen.args):
            top = seen
    parent = case.table.get(top.process.ppid)
    if parent is not None and parent.process.alive and _started(parent, top):
        return f"the process {parent.process.pid} that started it lives"
    for seen in case.table.values():
        if seen.process.alive and _titled_server(seen) and seen.process.pgid == top.process.pgid:
            return f"its server {seen.process.pid} lives"  # one of several, beside the engines and not above them
    return None


def _started(parent: Seen, top: Seen) -> bool:
    """Tell a parent that started a process, such as a program with an engine of its own, from one that adopted it.

    Engines stay in the session of their starter, and a subreaper is in another. PID 1 adopts from its own session too,
    but only a Python program starts engines.
    """
    same_session = parent.process.sid == top.process.sid
    return same_session and (parent.process.pid != 1 or _program(parent).startswith("python"))


def _program(seen: Seen) -> str:
    words = seen.args.split(None, 1)
    return words[0].rsplit("/", 1)[-1] if words else seen.process.comm


def _titled_server(seen: Seen) -> bool:
    return seen.process.comm.startswith(_API_SERVER) or seen.args.startswith(_API_SERVER)


def _is_server(seen: Seen) -> bool:
    """Tell whether a process is vLLM's command, run by itself or by Python, or a module that serves."""
    if _titled_server(seen) or seen.process.comm == "vllm" or _program(seen) == "vllm":
        return True
    words = seen.args.split() if _program(seen).startswith("python") else []
    script = any(word.rsplit("/", 1)[-1] == "vllm" for word in words[1:4])
    return script or any("vllm.entrypoints" in word or "api_server" in word for word in words)


def _foreign(case: _Case) -> Optional[str]:
    if case.seen.process.uid != case.facts.uid:
        return f"it belongs to user {case.seen.process.uid}, not to the worker's user {case.facts.uid}"
    if case.seen.pid_namespace is None or case.seen.pid_namespace != case.facts.pid_namespace:
        return "it is not known to be in the worker's pid namespace"
    return None


_TESTS: Tuple[Tuple[int, Callable[[_Case], Optional[str]]], ...] = (
    (1, _name),
    (2, _protected),
    (3, _of_execution),
    (4, _served),
    (5, _foreign),
)

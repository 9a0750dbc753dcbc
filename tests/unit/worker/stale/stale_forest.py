"""Process forests for the tests of stale cleanup: recorded, random, and an independent reading of the five tests."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st

from vaws_mcp.worker.engine.stale.judge import Facts, Seen
from vaws_mcp.worker.facts.procfs import Identity, Process

UID = 0
NAMESPACE = "pid:[4026531836]"
OWN_PID = 90
LIVE = "execution-live"
DEAD = "execution-dead"

SERVER = "/opt/venv/bin/python3.11 /opt/venv/bin/vllm serve /models/tiny --port 8000"
SUPERVISOR = (
    "/usr/bin/python3 -u -I -S -c import-line /root/.vaws/worker-1 supervise /root/.vaws/executions/execution-live"
)

# comm and command line, as the kernel shows them.
KINDS: tuple[tuple[str, str], ...] = (
    ("VLLM::EngineCor", "VLLM::EngineCore"),
    ("VLLM::EngineCor", "VLLM::EngineCore_DP0"),
    ("VLLM::EngineCor", ""),
    ("VLLM::Worker", "VLLM::Worker"),
    ("VLLM::Worker_TP", "VLLM::Worker_TP0_EP0"),
    ("VLLM::Worker_TP", "/opt/venv/bin/python3.11 -c from multiprocessing.spawn import spawn_main --sshd-like"),
    ("VLLM::Worker", "VLLM::Worker --dir /root/.vaws/x"),
    ("VLLM::APIServer", "VLLM::APIServer_0"),
    ("VLLM::DPCoordin", "VLLM::DPCoordinator"),
    ("vllm", SERVER),
    ("python3.11", SERVER),
    ("python3", "/usr/bin/python3 -m vllm.entrypoints.openai.api_server --model m"),
    ("python3", "/usr/bin/python3 offline.py"),
    ("python3.11", "/opt/venv/bin/python3.11 -B -c from multiprocessing.resource_tracker import main;main(32)"),
    ("python3", SUPERVISOR),
    ("bash", "bash -c vllm serve x; sleep 9"),
    ("tini", "tini -- sleep infinity"),
    ("sshd", "sshd: root@notty"),
    ("grep", "grep VLLM::EngineCore"),
)


def process(pid: int, ppid: int, comm: str = "bash", **more: int | str) -> Process:
    values: dict[str, int | str] = {"pgid": pid, "sid": pid, "state": "S", "start_ticks": pid * 100, "uid": UID, **more}
    return Process(pid=pid, ppid=ppid, comm=comm, **values)  # pyright: ignore[reportArgumentType]


def seen(one: Process, args: str = "", namespace: str | None = NAMESPACE, markers: Iterable[str] | None = ()) -> Seen:
    return Seen(one, args, namespace, None if markers is None else frozenset(markers))


def facts(*, live: Iterable[str] = (LIVE,), members: Iterable[Identity] = (), own_pid: int = OWN_PID) -> Facts:
    return Facts(own_pid, UID, NAMESPACE, frozenset(live), frozenset(members))


def recorded(text: str) -> list[Seen]:
    """Read lines of ``ps -o pid,ppid,pgid,sid,stat,…,comm,args``; further columns before comm are skipped."""
    found: list[Seen] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 8 or not words[0].isdigit():
            continue
        pid, ppid, pgid, sid = map(int, words[:4])
        rest = words[5:]
        while rest and rest[0].replace(".", "").replace(":", "").isdigit():
            rest = rest[1:]
        one = process(pid, ppid, rest[0], pgid=pgid, sid=sid, state=words[4][0])
        found.append(seen(one, "" if rest[1].startswith("[") else " ".join(rest[1:])))
    return found


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Seen], Facts]:
    """A random table, circles and missing parents included, with a worker somewhere in it."""
    pids = [1, *draw(st.lists(st.integers(2, 40), unique=True, max_size=14))]
    table: list[Seen] = []
    for pid in pids:
        comm, args = draw(st.sampled_from(KINDS))
        one = process(
            pid,
            draw(st.sampled_from([0, 1, *pids])),
            comm,
            sid=draw(st.sampled_from(pids)),
            pgid=draw(st.sampled_from(pids)),
            state=draw(st.sampled_from("SSSSSRDZ")),
            uid=draw(st.sampled_from([UID, UID, UID, UID, 65534])),
        )
        marks = draw(st.sampled_from([(), (), (), (), (LIVE,), (DEAD,), None]))
        table.append(seen(one, args, draw(st.sampled_from([NAMESPACE] * 5 + ["pid:[7]", None])), marks))
    members = draw(st.sampled_from([[], [], [table[-1].process.identity]]))
    return table, facts(members=members, own_pid=draw(st.sampled_from(pids)))


def chain(one: Seen, table: list[Seen]) -> list[Seen]:
    """The process and its ancestors, zombies among them."""
    found: list[Seen] = []
    by_pid = {entry.process.pid: entry for entry in table}
    at: Seen | None = one
    while at is not None and at not in found:
        found.append(at)
        at = by_pid.get(at.process.ppid)
    return found


def violated(one: Seen, table: list[Seen], known: Facts) -> list[int]:
    """Which of the five tests a process violates, written down a second time from the contract."""
    line = chain(one, table)
    own = [entry for entry in table if entry.process.pid == known.own_pid]
    wrong: list[int] = []
    names = (one.process.comm, one.args)
    if not any(name.startswith(("VLLM::EngineCore", "VLLM::Worker")) or name == "VLLM::EngineCor" for name in names):
        wrong.append(1)
    said = f"{one.process.comm} {one.args}"
    protected = own and one in chain(own[0], table)
    if one.process.pid == 1 or protected or "sshd" in said or "vaws" in said:
        wrong.append(2)
    marked = any(LIVE in (entry.markers or ()) or entry.process.identity in known.members for entry in line)
    if marked or one.markers is None or any("supervise" in entry.args for entry in line[1:]):
        wrong.append(3)
    servers = ("vllm serve", "vllm.entrypoints", "VLLM::APIServer")
    living = [entry for entry in line if entry.process.state not in "ZX" and entry.process.comm != "bash"]
    if any(text in entry.args for entry in living for text in servers):
        wrong.append(4)
    if one.process.uid != UID or one.pid_namespace != NAMESPACE:
        wrong.append(5)
    return wrong

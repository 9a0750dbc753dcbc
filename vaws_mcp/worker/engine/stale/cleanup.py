"""``stale.cleanup``: find stale processes of vLLM and, only when asked, end them."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Set

from ...facts import procfs
from ...facts.procfs import Process
from ...request import Answer, Request
from ..drain import describe
from ..linux import send_signal
from . import shared_memory
from .judge import Verdict, is_vllm
from .look import verdicts
from .reap import Pace, Reaped, World, reap

_VANISH_S = 1.0  # what is left of a family removes its own shared memory when the last of them has gone


def cleanup(request: Request) -> Answer:
    """Answer with what is stale, what was spared and why, and with ``apply`` what was ended and what survived."""
    apply = request.params.flag("apply")
    pace = Pace(
        request.params.seconds("top_s", Pace().top_s),
        request.params.seconds("term_s", Pace().term_s),
        request.params.seconds("kill_s", Pace().kill_s),
    )
    first = verdicts()
    found = {verdict.seen.process.identity: _described(verdict) for verdict in first if verdict.matched}
    answer: Dict[str, Any] = {
        "applied": apply,
        "looked_at": len(first),
        "spared": [_described(verdict) for verdict in first if _worth_saying(verdict)],
        "killed": [],
        "surviving": [],
    }
    used: Set[shared_memory.Key] = set()
    if apply and found:
        ended = _end(request, pace)
        for process in ended.reaped.matched.values():
            found.setdefault(process.identity, describe(process))
        for identity, entry in found.items():
            answer["surviving" if procfs.is_alive(identity) else "killed"].append(entry)
        used = ended.used
    answer["matched"] = list(found.values())
    answer["shared_memory"] = shared_memory.orphans(used, remove=apply)
    return answer, b""


class _Ended(NamedTuple):
    reaped: Reaped
    used: Set[shared_memory.Key]


def _end(request: Request, pace: Pace) -> _Ended:
    """End what is stale, and note the shared memory it used."""
    used: Set[shared_memory.Key] = set()
    asked: Set[procfs.Identity] = set()

    def find() -> List[Verdict]:
        found = verdicts()
        fresh = [_process(verdict) for verdict in found if verdict.matched and _process(verdict).identity not in asked]
        asked.update(process.identity for process in fresh)
        used.update(shared_memory.users(process.pid for process in fresh).used)
        return found

    reaped = reap(World(find, _signal, request.pause), pace)
    if used:
        request.pause(_VANISH_S)
    return _Ended(reaped, used)


def _signal(identity: procfs.Identity, signum: int) -> bool:
    """Send a signal after one more look, which trusts no verdict: is it still a process with a title of vLLM?"""
    process = procfs.read_process(identity.pid)
    if process is None or identity.pid == 1 or not is_vllm(process, procfs.title(identity.pid)):
        return False
    return send_signal(identity, signum)


def _process(verdict: Verdict) -> Process:
    return verdict.seen.process


def _worth_saying(verdict: Verdict) -> bool:
    """Tell whether somebody could have expected the process to be stale."""
    return not verdict.matched and is_vllm(verdict.seen.process, verdict.seen.args)


def _described(verdict: Verdict) -> Dict[str, Any]:
    entry = describe(verdict.seen.process)
    entry.update(ppid=verdict.seen.process.ppid, uid=verdict.seen.process.uid)
    entry.update(test=verdict.test, reason=verdict.reason)
    return entry

"""The five tests of stale cleanup on recorded trees, on chosen cases, and on random forests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from stale_forest import (
    DEAD,
    LIVE,
    OWN_PID,
    SERVER,
    SUPERVISOR,
    chain,
    facts,
    process,
    recorded,
    seen,
    violated,
    worlds,
)

from vaws_mcp.worker.engine.stale.judge import Facts, Seen, Verdict, judge

RECORDINGS = Path(__file__).parents[5] / "shared" / "fixtures" / "live_vllm_0.32" / "proc"

# Real trees of vLLM 0.32 on CPU.
RUNNING_TP2 = """
12518     1 12518 12518 Ssl  582264  10 vllm            /opt/vllm/venv/bin/python3.11 /opt/vllm/venv/bin/vllm serve
12589 12518 12518 12518 S     12740   1 python3.11      /opt/vllm/venv/bin/python3.11 -B -c from multiprocessing
12590 12518 12518 12518 Sl   532512  17 VLLM::EngineCor VLLM::EngineCore
12647 12590 12518 12518 Sl  1622012  48 VLLM::Worker_TP VLLM::Worker_TP0
12648 12590 12518 12518 Sl  1622536  48 VLLM::Worker_TP VLLM::Worker_TP1
"""
ORPHANS = """
 7283     1  7213  7213 S     12732 0.0 02:25 python3.11      /opt/vllm/venv/bin/python3.11 -B -c from multiprocessing
 7284     1  7213  7213 Sl   525128 5.0 02:25 VLLM::EngineCor VLLM::EngineCore
 7344  7284  7213  7213 Sl  1640744 11.3 02:19 VLLM::Worker    VLLM::Worker
"""
ENDING = """
 6577  6440  6440  6440 S     12720    1 python3.11      /opt/vllm/venv/bin/python3.11 -B -c from multiprocessing
 6640     1  6440  6440 Z         0    1 VLLM::Worker    [VLLM::Worker] <defunct>
"""
ENDED_ENGINE = """
 6440     1  6440  6440 Rsl  560892  10 vllm            /opt/vllm/venv/bin/python3.11 /opt/vllm/venv/bin/vllm serve
 6578  6440  6440  6440 Zl       0    2 VLLM::EngineCor [VLLM::EngineCor] <defunct>
 6640  6578  6440  6440 R        0    1 VLLM::Worker    [VLLM::Worker]
"""
INIT = seen(process(1, 0, "tini"), "tini -- sleep infinity")
WORKER = seen(process(OWN_PID, 1, "python3"), "/usr/bin/python3 -u -I -S -c import-line /root/.vaws/worker-1")
ENGINE = seen(process(50, 1, "VLLM::EngineCor", sid=40, pgid=40), "VLLM::EngineCore")


def reaped(table: list[Seen], known: Facts | None = None) -> list[int]:
    return [verdict.seen.process.pid for verdict in judge(table, known or facts()) if verdict.matched]


def verdict_of(one: Seen, *others: Seen, known: Facts | None = None) -> Verdict:
    found = judge([INIT, WORKER, one, *others], known or facts())
    return next(verdict for verdict in found if verdict.seen is one)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [(RUNNING_TP2, []), (ORPHANS, [7284, 7344]), (ENDING, []), (ORPHANS + RUNNING_TP2, [7284, 7344])],
)
def test_recorded_trees(tree: str, expected: list[int]) -> None:
    assert reaped([INIT, WORKER, *recorded(tree)]) == expected


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="full recordings are not part of a public clone")
@pytest.mark.parametrize("name", ["sigkill_parent_idle", "sigkill_parent_midrun", "sigterm_midrun", "sigterm_idle"])
def test_in_a_recorded_end_nothing_is_stale_before_the_server_has_gone(name: str) -> None:
    moments = (RECORDINGS / f"{name}.ps").read_text("utf-8").split("t=1796")[1:]
    for moment in moments:
        table = recorded(moment)
        served = any(one.process.comm == "vllm" for one in table)
        left = [one.process.pid for one in table if one.process.comm.startswith("VLLM::") and one.process.alive]
        assert reaped([INIT, WORKER, *table]) == ([] if served else left)
    assert len(moments) > 20


def test_an_orphan_below_a_subreaper_in_another_session_is_stale() -> None:
    reaper = seen(process(30, 1, "systemd"), "/lib/systemd/systemd --user")
    assert verdict_of(ENGINE._replace(process=ENGINE.process._replace(ppid=30)), reaper).matched


@pytest.mark.parametrize("comm", ["VLLM::EngineCor", "VLLM::Worker", "VLLM::Worker_TP", "VLLM::Worker_PP"])
def test_the_kernels_form_of_a_title_is_enough(comm: str) -> None:
    assert verdict_of(seen(process(50, 1, comm, sid=40), "")).matched


@pytest.mark.parametrize(
    ("one", "others", "test", "said"),
    [
        (seen(process(50, 1, "grep", sid=40), "grep VLLM::EngineCore"), (), 1, "no title"),
        (seen(process(50, 1, "VLLM::DPCoordin", sid=40), "VLLM::DPCoordinator"), (), 1, "no title"),
        (ENGINE._replace(args="VLLM::EngineCore /root/.vaws/x"), (), 2, "vaws"),
        (ENGINE._replace(args="VLLM::EngineCore sshd"), (), 2, "sshd"),
        (ENGINE._replace(markers=frozenset({LIVE})), (), 3, LIVE),
        (ENGINE._replace(markers=None), (), 3, "cannot be read"),
        (
            ENGINE._replace(process=ENGINE.process._replace(ppid=30)),
            (seen(process(30, 1, "python3"), SUPERVISOR),),
            3,
            "supervisor",
        ),
        (
            ENGINE._replace(process=ENGINE.process._replace(ppid=30)),
            (seen(process(30, 1, "bash"), "bash", markers=[LIVE]),),
            3,
            "ancestor 30",
        ),
        (
            ENGINE._replace(process=ENGINE.process._replace(ppid=30)),
            (seen(process(30, 1, "vllm"), SERVER),),
            4,
            "server 30",
        ),
        (
            ENGINE._replace(process=ENGINE.process._replace(ppid=40)),
            (seen(process(40, 1, "python3"), "python3 offline.py"),),
            4,
            "40 that started it",
        ),
        (ENGINE, (seen(process(51, 1, "VLLM::APIServer", pgid=40), "VLLM::APIServer_0"),), 4, "server 51"),
        (ENGINE._replace(process=ENGINE.process._replace(uid=65534)), (), 5, "65534"),
        (ENGINE._replace(pid_namespace="pid:[7]"), (), 5, "namespace"),
        (ENGINE._replace(pid_namespace=None), (), 5, "namespace"),
    ],
)
def test_one_broken_test_spares_and_is_named(one: Seen, others: tuple[Seen, ...], test: int, said: str) -> None:
    assert verdict_of(ENGINE).matched
    verdict = verdict_of(one, *others)
    assert (verdict.matched, verdict.test) == (False, test)
    assert said in verdict.reason


def test_an_ancestor_of_the_worker_is_spared() -> None:
    below = WORKER._replace(process=WORKER.process._replace(ppid=50))
    verdict = next(each for each in judge([INIT, ENGINE, below], facts()) if each.seen is ENGINE)
    assert (verdict.matched, verdict.test) == (False, 2)


def test_pid_1_is_spared_and_as_a_script_it_is_no_server() -> None:
    first = seen(process(1, 0, "VLLM::EngineCor"), "VLLM::EngineCore")
    assert judge([first], facts())[0].test == 2
    script = seen(process(1, 0, "bash"), "bash -c vllm serve /models/x; sleep infinity")
    table = [script, ENGINE._replace(process=ENGINE.process._replace(sid=1, pgid=1))]
    assert reaped(table) == [50]
    program = seen(process(1, 0, "python3"), "/usr/bin/python3 /app/serve.py")
    assert reaped([program, table[1]]) == []


@pytest.mark.parametrize(
    ("ppid", "other"),
    [
        (30, seen(process(30, 1, "vllm", state="Z"), "")),
        (40, seen(process(40, 1, "python3", state="Z"), "")),
        (1, seen(process(51, 1, "VLLM::APIServer", pgid=51), "VLLM::APIServer_0")),
        (1, seen(process(51, 1, "VLLM::APIServer", pgid=40, state="Z"), "")),
    ],
)
def test_a_dead_server_or_one_of_another_family_protects_nothing(ppid: int, other: Seen) -> None:
    assert verdict_of(ENGINE._replace(process=ENGINE.process._replace(ppid=ppid)), other).matched


def test_two_unknown_namespaces_are_not_the_same() -> None:
    unknown = facts()._replace(pid_namespace=None)
    assert verdict_of(ENGINE._replace(pid_namespace=None), known=unknown).test == 5


def test_the_mark_of_an_execution_that_is_over_protects_nothing() -> None:
    assert verdict_of(ENGINE._replace(markers=frozenset({DEAD}))).matched


def test_members_by_record_are_spared_with_what_descends_from_them() -> None:
    below = seen(process(60, 50, "VLLM::Worker", sid=40), "VLLM::Worker")
    known = facts(members=[ENGINE.process.identity])
    assert reaped([INIT, WORKER, ENGINE, below], known) == []
    reused = facts(members=[ENGINE.process.identity._replace(start_ticks=1)])
    assert reaped([INIT, WORKER, ENGINE, below], reused) == [50, 60]


@settings(max_examples=1000, deadline=None)
@given(worlds())
def test_nothing_that_violates_a_test_is_ever_stale_and_the_first_one_is_named(world: tuple[list[Seen], Facts]) -> None:
    table, known = world
    living = [one for one in table if one.process.state not in "ZX"]
    verdicts = judge(table, known)
    assert sorted(verdict.seen.process.pid for verdict in verdicts) == sorted(one.process.pid for one in living)
    for verdict in verdicts:
        wrong = violated(verdict.seen, table, known)
        assert verdict.reason
        if verdict.matched:
            assert wrong == []
        elif wrong:
            assert verdict.test == wrong[0] or (verdict.test == 4 and wrong[0] == 5)
        else:
            assert verdict.test == 4  # a living starter, or one of several servers beside the engines


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_an_orphan_of_its_own_session_is_always_stale(world: tuple[list[Seen], Facts]) -> None:
    table, known = world
    for verdict in judge(table, known):
        one = verdict.seen
        line = chain(one, table)
        strangers = {each.process.sid for each in table if each.process.comm == "VLLM::APIServer"}
        circle = line[-1].process.ppid in {each.process.pid for each in table}
        alone = len({each.process.sid for each in line}) == len(line) and not strangers and not circle
        if alone and violated(one, table, known) == []:
            assert verdict.matched, verdict

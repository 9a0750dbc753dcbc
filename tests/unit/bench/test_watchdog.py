"""When a client that prints nothing is believed to work, and when it is given up."""

from __future__ import annotations

from vaws_mcp.bench.parse_metrics import Counters
from vaws_mcp.bench.watchdog import ENDED_GRACE_S, PREPARE_S, Look, Stalled

STEP_S = 5.0


def counted(tokens: float, running: float = 1) -> Counters:
    return Counters({"generation_tokens": {'engine="0"': tokens}}, {"running": running, "waiting": 0})


def given_up_after(looks: list[Look], bound_s: float = 120.0) -> float | None:
    """Seconds until a client is given up; the last look is seen again for two hours."""
    stalled = Stalled(bound_s, now=0.0)
    for number in range(1, int(7200 / STEP_S)):
        look = looks[min(number - 1, len(looks) - 1)]
        if stalled.note(look, number * STEP_S):
            return number * STEP_S
    return None


def working(tokens: float) -> Look:
    return Look(0, answered=True, counters=counted(tokens))


def test_a_client_whose_tokens_stop_is_given_up_after_the_bound() -> None:
    looks = [working(number) for number in range(10)]
    assert given_up_after(looks) == 10 * STEP_S + 120.0


def test_a_client_is_never_given_up_while_tokens_come() -> None:
    assert given_up_after([working(number) for number in range(2000)]) is None


def test_requests_that_start_or_end_are_movement() -> None:
    looks = [Look(0, answered=True, counters=counted(1, running=number % 3)) for number in range(2000)]
    assert given_up_after(looks) is None


def test_output_is_movement() -> None:
    looks = [Look(number, answered=True, counters=counted(1)) for number in range(2000)]
    assert given_up_after(looks) is None


def test_a_service_that_no_longer_answers_is_no_movement() -> None:
    gone = Look(0, answered=False, counters=None)
    assert given_up_after([working(1), working(2), gone]) == 2 * STEP_S + 120.0


def test_a_service_that_never_answered_is_not_waited_for_longer() -> None:
    assert given_up_after([Look(0, answered=False, counters=None)]) == 120.0


def test_making_a_data_set_may_take_longer_than_a_stall() -> None:
    assert given_up_after([working(0)]) == PREPARE_S
    assert given_up_after([working(0)], bound_s=2000.0) == 2000.0


def test_a_service_without_statistics_is_believed_as_long_as_it_answers() -> None:
    silent = Look(0, answered=True, counters=None)
    assert given_up_after([silent]) is None
    assert given_up_after([silent, silent, Look(0, answered=False, counters=None)]) == 2 * STEP_S + 120.0


def test_a_client_whose_service_has_ended_gets_a_moment_to_say_so() -> None:
    ended = Look(0, answered=False, counters=None, service_ended=True)
    assert given_up_after([working(1), working(2), ended]) == 3 * STEP_S + ENDED_GRACE_S


def test_the_reason_says_what_did_not_move() -> None:
    stalled = Stalled(1.0, now=0.0)
    assert stalled.note(working(1), 0.0) is None
    assert stalled.note(working(2), 1.0) is None
    why = stalled.note(working(2), 3.0)
    assert why is not None
    assert why.startswith("nothing moved for 2 s: the service's counters did not move")

"""In which order the states of a comparison are launched. Pure."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

Order = Literal["sequential", "interleaved"]


class Planned(NamedTuple):
    """One launch to come. ``number`` counts all launches of the run from 1, ``round`` those of a state."""

    number: int
    round: int
    label: str


def schedule(labels: Sequence[str], order: Order, rounds: int) -> list[Planned]:
    """Return all launches in order, ``rounds`` for each state.

    Sequential: all launches of a state, then the next state. Interleaved: the states forward, then backward, and so on,
    so that a drift of the host hits all states alike.
    """
    if order == "sequential":
        turns = [(number, label) for label in labels for number in range(1, rounds + 1)]
    else:
        turns = [(number, label) for number in range(1, rounds + 1) for label in labels[:: 1 if number % 2 else -1]]
    return [Planned(index, number, label) for index, (number, label) in enumerate(turns, 1)]

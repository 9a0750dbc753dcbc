"""The only source of chance in the simulation: generators fixed by what they are for."""

import random


def source(*names: object) -> random.Random:
    """Return a generator that yields the same numbers for the same names in every process and version of Python."""
    return random.Random(":".join(map(str, names)))  # noqa: S311 - simulated noise has to be repeatable

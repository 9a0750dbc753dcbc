"""The distributions in a detailed result: one value for each request that succeeded. Pure."""

import math
from typing import Any, NamedTuple

from vaws_mcp.bench.result_objects import ParseFailure, Take, read_objects


class Samples(NamedTuple):
    """Times of single requests, in the order of the client. Empty when the client did not save them.

    Units: milliseconds. A request of one token has no time per output token.
    """

    ttft_ms: list[float]
    tpot_ms: list[float]


def read_samples(text: str) -> Samples:
    """Return the distributions in a result of ``vllm bench serve --save-detailed``, at bounded memory.

    Raises: ParseFailure when the file is no complete JSON or an array holds something else than numbers.
    """
    ttfts: list[float] = []
    gaps: list[float] = []
    lengths: list[float] = []
    failed: list[bool] = []
    takers: dict[str, Take] = {
        "ttfts": lambda value: ttfts.append(_number(value)),
        "itls": lambda value: gaps.append(_total(value)),
        "output_lens": lambda value: lengths.append(_number(value)),
        "errors": lambda value: failed.append(bool(value)),
    }
    read_objects(text.removeprefix("\ufeff"), takers)
    good = [index for index, first in enumerate(ttfts) if first > 0 and not (index < len(failed) and failed[index])]
    known = min(len(gaps), len(lengths))
    tpots = [gaps[index] / (lengths[index] - 1) for index in good if index < known and lengths[index] > 1]
    return Samples([ttfts[index] * 1000 for index in good], [value * 1000 for value in tpots])


def _total(value: Any) -> float:
    if not isinstance(value, list):
        raise _wrong(value)
    return math.fsum(_number(item) for item in value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _wrong(value)
    return float(value)


def _wrong(value: object) -> ParseFailure:
    return ParseFailure(
        f"an array of single requests holds {type(value).__name__} where a number belongs",
        raw=repr(value)[:200],
        hint="Measure again; the file was changed.",
    )

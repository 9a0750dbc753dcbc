"""The counters of a vLLM server, read from the text of ``/metrics``, and what they grew by. Pure.

Source: the Prometheus text format; names of vLLM 0.9 to 0.33. Every engine of a data-parallel service has series of its
own, which are added up.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SAMPLE = re.compile(r'^vllm:(\w+)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*$')
_POSITION = re.compile(r'(?:^|,)\s*position="(\d+)"')
_COUNTERS = {
    "prompt_tokens": "prompt_tokens",
    "generation_tokens": "generation_tokens",
    "request_success": "requests",
    "spec_decode_num_drafts": "drafts",
    "spec_decode_num_draft_tokens": "draft_tokens",
    "spec_decode_num_accepted_tokens": "accepted_tokens",
    "spec_decode_num_accepted_tokens_per_pos": "accepted_at",
}
_GAUGES = {"num_requests_running": "running", "num_requests_waiting": "waiting"}

Series = Mapping[str, float]


@dataclass(frozen=True)
class Counters:
    """What a server has counted: for each of our names its series by their labels. Gauges are sums over engines."""

    series: Mapping[str, Series]
    gauges: Mapping[str, float]

    @property
    def progress(self) -> tuple[object, ...]:
        """What changes when the server does anything for a client: tokens, finished, running and waiting requests."""
        counted = [self.series.get(name, {}) for name in ("prompt_tokens", "generation_tokens", "requests")]
        return (*(tuple(sorted(series.items())) for series in counted), *sorted(self.gauges.items()))


@dataclass(frozen=True)
class Growth:
    """What a server has counted between two looks; None for what it does not count.

    ``reset`` says that a counter fell in between, as after a restart: then it counts from its new value on.
    """

    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    requests: float | None = None
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_at: list[float] = field(default_factory=list[float])
    reset: bool = False

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted share of draft tokens, 0 to 1; None when nothing was drafted."""
        return (
            self.accepted_tokens / self.draft_tokens if self.draft_tokens and self.accepted_tokens is not None else None
        )

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per verification step; None when nothing was drafted."""
        if not self.drafts or self.accepted_tokens is None:
            return None
        return 1 + self.accepted_tokens / self.drafts

    @property
    def per_position(self) -> list[float] | None:
        """Accepted share at each draft position; None when nothing was drafted."""
        return [count / self.drafts for count in self.accepted_at] if self.drafts and self.accepted_at else None

    def as_json(self) -> dict[str, object]:
        """Return the growth with its rates, for a result."""
        counts = {name: getattr(self, name) for name in ("prompt_tokens", "generation_tokens", "requests")}
        counts |= {name: getattr(self, name) for name in ("drafts", "draft_tokens", "accepted_tokens")}
        return {
            **{name: None if value is None else int(value) for name, value in counts.items()},
            "acceptance_rate": self.acceptance_rate,
            "acceptance_length": self.acceptance_length,
            "per_position_acceptance_rates": self.per_position,
            "reset": self.reset,
        }


def parse_metrics(text: str) -> Counters | None:
    """Return the counters in the text of ``/metrics``; None when it has none of vLLM's, as without statistics."""
    series: dict[str, dict[str, float]] = {}
    gauges: dict[str, float] = {}
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        value = _value(match[3]) if match else None
        if match is None or value is None:
            continue
        name, labels = match[1], match[2] or ""
        if name in _GAUGES:
            gauges[_GAUGES[name]] = gauges.get(_GAUGES[name], 0.0) + value
        ours = _COUNTERS.get(name.removesuffix("_total"))
        if ours:
            series.setdefault(ours, {})[labels] = value
    return Counters(series, gauges) if series or gauges else None


def _value(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def growth(before: Counters, after: Counters) -> Growth:
    """Return what the counters grew by. A series that is new counts from 0, one that fell from its reset on."""
    fell = [_fell(before.series.get(name, {}), series) for name, series in after.series.items()]
    totals = {
        name: sum(_grown(before.series.get(name, {}), series).values())
        for name, series in after.series.items()
        if name != "accepted_at"
    }
    positions = _grown(before.series.get("accepted_at", {}), after.series.get("accepted_at", {}))
    return Growth(**totals, accepted_at=_by_position(positions), reset=any(fell))


def _fell(before: Series, after: Series) -> bool:
    return any(value < before.get(labels, 0.0) for labels, value in after.items())


def _grown(before: Series, after: Series) -> dict[str, float]:
    grown: dict[str, float] = {}
    for labels, value in after.items():
        earlier = before.get(labels, 0.0)
        grown[labels] = value - earlier if value >= earlier else value
    return grown


def _by_position(grown: Series) -> list[float]:
    """Add up the engines and return the counts in order of position; nothing when a position is missing."""
    counts: dict[int, float] = {}
    for labels, value in grown.items():
        position = _POSITION.search(labels)
        if position:
            counts[int(position[1])] = counts.get(int(position[1]), 0.0) + value
    return [counts[index] for index in range(len(counts))] if set(counts) == set(range(len(counts))) else []

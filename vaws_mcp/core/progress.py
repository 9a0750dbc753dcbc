"""Progress events: what a waiting caller is told while work goes on."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ProgressEvent:
    """One step forward. ``progress`` and ``total`` count units of work and never decrease within an operation."""

    phase: str
    message: str
    progress: float | None = None
    total: float | None = None
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    def as_dict(self) -> dict[str, Any]:
        """Return the event as one flat JSON object; ``facts`` do not shadow the fixed keys."""
        fixed = asdict(self)
        facts = fixed.pop("facts")
        return {**facts, **fixed}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> "ProgressEvent":
        """Rebuild an event from ``as_dict``."""
        rest = dict(raw)
        return cls(
            phase=str(rest.pop("phase", "")),
            message=str(rest.pop("message", "")),
            progress=rest.pop("progress", None),
            total=rest.pop("total", None),
            facts=rest,
        )


ProgressSink = Callable[[ProgressEvent], Awaitable[None]]


async def silent(_event: ProgressEvent) -> None:
    """Drop an event: nobody is listening."""

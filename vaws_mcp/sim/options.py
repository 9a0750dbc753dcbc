"""What a simulated container can be asked to be."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


class SimError(Exception):
    """The simulated container could not be started or found."""


class SimUnsupported(SimError):  # noqa: N818 - a state of the machine, not a mistake
    """This machine cannot run the simulated container; the message says what to do instead."""


@dataclass(frozen=True)
class SimOptions:
    """Hardware, speed and noise of a simulated container.

    ``root`` is its sandbox; without one a fresh directory is made and removed at the end.
    Units: ``noise_run`` and ``noise_launch`` are relative standard deviations of the time per output token, of one
    benchmark run and of one launch; ``drift`` is its relative growth over the first 20 launches.
    Raises: SimError for values that make no sense.
    """

    devices: int = 8
    layout: Literal["a2", "a3"] = "a2"
    root: Path | None = None
    seed: int = 0
    noise_run: float = 0.02
    noise_launch: float = 0.03
    drift: float = 0.05
    load_seconds: float = 1.0
    tpot_ms: float = 20.0
    port: int = 0

    def __post_init__(self) -> None:
        if self.devices < 1 or self.layout not in ("a2", "a3"):
            raise SimError(f"no such hardware: {self.devices} devices in layout {self.layout!r} (a2 or a3)")
        if self.tpot_ms <= 0 or min(self.load_seconds, self.noise_run, self.noise_launch, self.drift) < 0:
            raise SimError("tpot_ms must be positive; load_seconds, noise and drift must not be negative")

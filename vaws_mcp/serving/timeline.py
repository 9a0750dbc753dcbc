"""How far a start has come, read from vLLM's own log lines."""

import re
from dataclasses import dataclass
from datetime import datetime

from vaws_mcp.serving.signatures import Marker, known_signatures

ORDER = ("init", "weights", "compile", "graph_capture", "engine", "http", "models", "first_token")
_STAMP = re.compile(r"\b([01]\d)-([0-3]\d) ([0-2]\d):([0-5]\d):([0-5]\d)\b")
_YEAR_S = 366 * 86400.0


@dataclass(frozen=True)
class Moment:
    """When something was seen: ``stamp`` by the log's own clock, ``seen`` by ours. Units: seconds."""

    stamp: float | None
    seen: float | None


class Timeline:
    """Phases of one start. ``took`` holds the seconds that vLLM itself states."""

    def __init__(self) -> None:
        self.phase = "init"
        self.took: dict[str, float] = {}
        self._ends: dict[str, Moment] = {}
        self._first_stamp: float | None = None
        self._stamp: float | None = None

    def new_stream(self) -> None:
        """Forget the newest stamp: another stream does not go on from it."""
        self._stamp = None

    def text(self, lines: str, seen: float | None = None) -> None:
        """Read whole lines; ``seen`` is the time since the start when they appeared, if somebody watched."""
        markers = [marker for marker in known_signatures().markers if marker.pattern.search(lines)]
        for line in lines.splitlines():
            self.line(line, markers, seen)

    def line(self, line: str, markers: list[Marker], seen: float | None = None) -> None:
        """Read one line, looking for these markers only."""
        if not markers and self._first_stamp is not None:
            return
        if stamp := _STAMP.search(line):
            self._read_stamp(stamp)
        for marker in markers:
            if match := marker.pattern.search(line):
                self._note(marker, match, seen)
                return

    def _read_stamp(self, match: re.Match[str]) -> None:
        month, day, hour, minute, second = map(int, match.groups())
        try:
            # Log lines carry no year; a leap year knows every day.
            moment = datetime(2000, month, day, hour, minute, second)  # noqa: DTZ001 - only differences are used
        except ValueError:
            return
        self._stamp = (moment - datetime(2000, 1, 1)).total_seconds()  # noqa: DTZ001
        if self._first_stamp is None:
            self._first_stamp = self._stamp

    def _note(self, marker: Marker, match: re.Match[str], seen: float | None) -> None:
        if marker.edge == "begin":
            self.reached(marker.phase)
            return
        seconds = next((group for group in match.groups() if group is not None), None)
        if seconds is not None:
            self.took[marker.phase] = max(float(seconds), self.took.get(marker.phase, 0.0))
        self.done(marker.phase, seen)

    def reached(self, phase: str) -> None:
        """Note that a phase has begun. Ranks differ; the farthest counts."""
        if ORDER.index(phase) > ORDER.index(self.phase):
            self.phase = phase

    def done(self, phase: str, seen: float | None = None) -> None:
        """Note that a phase is over. Ranks differ; the last one counts."""
        self.reached(phase)
        if phase not in self._ends or seen is not None or self._stamp is not None:
            self._ends[phase] = Moment(self._stamp, seen)

    def phases(self) -> dict[str, float]:
        """Return the seconds from the start to the end of each phase that is over, in order.

        When nobody watched, the log's own clock counts, from its first line on.
        """
        found: dict[str, float] = {}
        for name in ORDER:
            moment = self._ends.get(name)
            if moment is None:
                continue
            if moment.seen is not None:
                found[name] = round(moment.seen, 3)
            elif moment.stamp is not None and self._first_stamp is not None:
                found[name] = (moment.stamp - self._first_stamp) % _YEAR_S
        return found

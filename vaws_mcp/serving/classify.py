"""From the log of a start to its cause: the first primary failure, whatever was logged after it."""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vaws_mcp.core.redact import redact_text
from vaws_mcp.core.sanitize import one_line
from vaws_mcp.serving.loglines import LineSplitter, pieces
from vaws_mcp.serving.signatures import Role, Signature, known_signatures
from vaws_mcp.serving.timeline import Timeline

UNCLASSIFIED = "unclassified"
LINE_LIMIT = 500
TAIL_LINES = 30
MOST_SECONDARY = 20
CHUNK = 1 << 20
_HEAD = r"(?:\([^()\n]*\)\s*|\[rank\d+\]:?\s*)*"
_QUIET = re.compile(rf"^{_HEAD}\[?(?:DEBUG|INFO|WARNING)\b")
# What the logger repeats before every line of one message.
_MESSAGE_HEAD = re.compile(rf"^{_HEAD}(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d [\d:]{{8}} \[?[\w./]+:\d+\]")
_EXCEPTION = re.compile(r"(?:^|[\s.])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?:: |$)")
_ERROR = re.compile(rf"^{_HEAD}\[?(?:ERROR|CRITICAL|FATAL)\b|\berror: ")
_ERROR_WORDS = ("Error", "Exception", "ERROR", "CRITICAL", "FATAL", "error: ", "Interrupt", "Exit")
_RANKS: dict[Role, int] = {"primary": 0, "weak": 1, "secondary": 2, "note": 3}
_NO_HINT = "No known signature: read the end of the log, from the first error on."


@dataclass(frozen=True)
class Hit:
    """A line that a signature was found in. ``number`` counts lines from 1."""

    signature: Signature
    line: str
    number: int
    phase: str


@dataclass(frozen=True)
class Trouble:
    """A line that reports an error no signature knows."""

    line: str
    number: int
    phase: str


@dataclass(frozen=True)
class Diagnosis:
    """Why a start failed. ``cls`` is ``unclassified`` when no signature was found; then ``tail`` matters."""

    cls: str
    signature: str | None
    phase: str
    line: str | None
    line_number: int | None
    hint: str
    secondary: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    tail: str = ""

    @property
    def failure(self) -> bool:
        """Whether the log shows a failure at all."""
        return self.cls not in ("ready", "progress")

    def fields(self) -> dict[str, Any]:
        """Return what a result says: class, signature, phase, line, line_number, secondary."""
        return {
            "class": self.cls,
            "signature": self.signature,
            "phase": self.phase,
            "line": self.line,
            "line_number": self.line_number,
            "secondary": self.secondary,
        }


class Classifier:
    """Reads a log piece by piece. Memory is bounded, however long the log is."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self._splitter = LineSplitter()
        self._number = 0
        self._best: Hit | None = None
        self._first: dict[str, Hit] = {}
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._error: Trouble | None = None
        self._complaint: Trouble | None = None
        self._benign_head: str | None = None

    def feed(self, text: str) -> None:
        """Read the next piece of the log."""
        self._lines(self._splitter.feed(text))

    def new_stream(self) -> None:
        """Begin with another stream of the same process; what comes counts as later."""
        self._lines(self._splitter.end())
        self._benign_head = None
        self.timeline.new_stream()

    def _lines(self, text: str) -> None:
        if not text:
            return
        known = known_signatures()
        # Most of a long log matches nothing: what is absent from the whole piece is not looked for in its lines.
        signatures = [item for item in known.signatures if item.occurs_in(text)]
        markers = [item for item in known.markers if item.pattern.search(text)]
        trouble = self._error is None and any(word in text for word in _ERROR_WORDS)
        for line in text.splitlines():
            self._number += 1
            if line.strip():
                self._tail.append(line[:LINE_LIMIT])
            self.timeline.line(line[:LINE_LIMIT], markers)
            if signatures or trouble or self._benign_head is not None:
                self._read(line, signatures)

    def _read(self, line: str, signatures: list[Signature]) -> None:
        quiet = _QUIET.match(line) is not None
        if self._is_benign(line):
            return
        for part in pieces(line):
            for signature in signatures:
                if quiet and not signature.quiet:
                    continue
                if match := signature.pattern.search(part):
                    self._hit(signature, part, match)
                    return
        if not quiet:
            self._note_error(line[:LINE_LIMIT])

    def _is_benign(self, line: str) -> bool:
        """Tell whether a line belongs to a message that was found to be benign."""
        if self._benign_head is None:
            return False
        if line.startswith(self._benign_head):
            return True
        self._benign_head = None
        return False

    def _hit(self, signature: Signature, line: str, match: re.Match[str]) -> None:
        if signature.role == "benign":
            head = _MESSAGE_HEAD.match(line)
            self._benign_head = head[0] if head else None
            return
        around = line if len(line) <= LINE_LIMIT else line[max(0, match.start() - 100) :]
        hit = Hit(signature, redact_text(one_line(around, LINE_LIMIT)), self._number, self.timeline.phase)
        self._first.setdefault(signature.id, hit)
        # The first cause counts, but the last note: it says how far the start has come.
        ahead = 1 if self._best is None else _RANKS[self._best.signature.role] - _RANKS[signature.role]
        if ahead > 0 or (ahead == 0 and signature.role == "note"):
            self._best = hit

    def _note_error(self, line: str) -> None:
        """Keep the first exception, else the first error line: the best there is when no signature matches."""
        if self._error is None and _EXCEPTION.search(line):
            self._error = self._trouble(line)
        elif self._complaint is None and _ERROR.search(line):
            self._complaint = self._trouble(line)

    def _trouble(self, line: str) -> "Trouble":
        return Trouble(redact_text(one_line(line, LINE_LIMIT)), self._number, self.timeline.phase)

    def diagnosis(self) -> Diagnosis:
        """Return what the log says so far, its unfinished last line included."""
        self._lines(self._splitter.end())
        tail = redact_text("\n".join(self._tail))
        best, trouble = self._best, self._error or self._complaint
        if best is None or (best.signature.role == "note" and trouble is not None):
            return self._unclassified(trouble, tail)
        others = [hit for hit in self._first.values() if hit is not best and hit.signature.role != "note"]
        secondary = [
            {"class": hit.signature.cls, "signature": hit.signature.id, "line": hit.line}
            for hit in others[:MOST_SECONDARY]
        ]
        item = best.signature
        return Diagnosis(item.cls, item.id, best.phase, best.line, best.number, item.hint, secondary, tail)

    def _unclassified(self, trouble: Trouble | None, tail: str) -> Diagnosis:
        if trouble is None:
            return Diagnosis(UNCLASSIFIED, None, self.timeline.phase, None, None, _NO_HINT, tail=tail)
        return Diagnosis(UNCLASSIFIED, None, trouble.phase, trouble.line, trouble.number, _NO_HINT, tail=tail)


def classify(log: str | Iterable[str]) -> Diagnosis:
    """Return the diagnosis of a log, given whole or as pieces of text in order."""
    classifier = Classifier()
    for piece in _chunks(log) if isinstance(log, str) else log:
        classifier.feed(piece)
    return classifier.diagnosis()


def _chunks(text: str) -> Iterable[str]:
    for start in range(0, len(text), CHUNK):
        yield text[start : start + CHUNK]

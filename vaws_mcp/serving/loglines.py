"""Log text, in pieces as it comes, to clean lines."""

import re

from vaws_mcp.core.sanitize import plain_text

LONGEST_LINE = 32_768
OVERLAP = 512
# Ranks share one stream and sometimes glue their lines together.
_GLUED = re.compile(r"(?<=[^\n])(?=\([\w-]+ pid=\d+\) (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b)")


class LineSplitter:
    """Cuts text into lines without control sequences. A carriage return ends a line, as in progress bars.

    Memory is bounded: a line without an end is given out in pieces of 32 KiB, which overlap so that no phrase is cut.
    """

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> str:
        """Return the whole lines that are complete now, as one text."""
        text = (self._rest + text).replace("\r", "\n")
        end = text.rfind("\n") + 1
        if len(text) - end > LONGEST_LINE:
            self._rest = text[-OVERLAP:]
            return self._clean(text) + "\n"
        self._rest = text[end:]
        return self._clean(text[:end])

    def end(self) -> str:
        """Return what was left without a line end."""
        text, self._rest = self._rest, ""
        return self._clean(text)

    @staticmethod
    def _clean(text: str) -> str:
        return _GLUED.sub("\n", plain_text(text))


def pieces(line: str) -> list[str]:
    """Cut an overlong line into overlapping pieces, so that searching it stays cheap."""
    if len(line) <= LONGEST_LINE:
        return [line]
    step = LONGEST_LINE - OVERLAP
    return [line[start : start + LONGEST_LINE] for start in range(0, len(line), step)]

"""Text of a stream of which only the beginning and the end were kept."""

from typing import Any

from vaws_mcp.worker.engine.lines import whole_characters


def joined(kept: bytes, stream: dict[str, Any]) -> str:
    """Return head and tail as text, with a line between them that says how many bytes are missing.

    No character is cut: what the cut left of one counts as missing. Bytes that are no UTF-8 are shown as �.
    """
    if not stream["truncated"]:
        return kept.decode("utf-8", "replace")
    head, tail = kept[: stream["kept_head"]], kept[stream["kept_head"] :]
    head = head[: whole_characters(head)]
    tail = tail[within_a_character(tail) :]
    missing = stream["cursor"] - len(head) - len(tail)
    return f"{head.decode('utf-8', 'replace')}\n[… {missing} bytes left out …]\n{tail.decode('utf-8', 'replace')}"


def within_a_character(raw: bytes) -> int:
    """Return how many bytes at the front belong to a character that began before."""
    count = 0
    while count < min(3, len(raw)) and raw[count] & 0xC0 == 0x80:
        count += 1
    return count

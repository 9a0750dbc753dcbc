"""What a queue says to a person: the place in it, who holds what is waited for, and since when."""

from datetime import UTC, datetime
from typing import Any


def queue_sentence(status: dict[str, Any]) -> str | None:
    """Return one sentence about a queued execution's place, or None when it is not queued.

    For example: ``queued at position 2 since 12:00:05Z: waits for NPU 3, held by alice@laptop (execution-…) …``.
    """
    if status.get("state") != "queued":
        return None
    queue = status.get("queue") or {}
    words = "queued"
    if queue.get("position") is not None:
        words += f" at position {queue['position']}"
    if queue.get("since") is not None:
        words += f" since {clock(queue['since'])}"
    waits = [_waits(item) for item in queue.get("waiting_for") or []]
    if waits:
        words += f": waits for {'; '.join(waits)}"
    elif queue.get("ahead"):
        words += f": behind {', '.join(holder_words(item) for item in queue['ahead'])}"
    return words


def _waits(item: dict[str, Any]) -> str:
    holder = item.get("holder")
    by = f", held by {holder_words(holder)}" if holder else ""
    why = f" ({item['reason']})" if item.get("reason") else ""
    return f"{_thing(item)}{by}{why}"


def _thing(item: dict[str, Any]) -> str:
    if item.get("port") is not None:
        return f"port {item['port']}"
    if item.get("tree") is not None:
        return f"tree {item['tree']}"
    if item.get("logic") is not None:
        return f"NPU {item['logic']}"
    if item.get("reservation") is not None:
        return f"reservation {item['reservation']}"
    return f"device {item['bus_id']}" if item.get("bus_id") else "a device"


def holder_words(holder: dict[str, Any]) -> str:
    """Name a holder: its owner, what it is, and since when."""
    named = [str(holder[key]) for key in ("execution_id", "what") if holder.get(key)]
    if not named and holder.get("pid"):
        named = [f"pid {holder['pid']}"]
    who = str(holder.get("owner") or holder.get("task_id") or "")
    words = f"{who} ({', '.join(named)})" if who and named else who or ", ".join(named) or "an unknown holder"
    return words + (f" since {clock(holder['since'])}" if holder.get("since") is not None else "")


def clock(at: float | str) -> str:
    """Return a time of a record, given in seconds since 1970, as ISO 8601 in UTC."""
    if isinstance(at, str):
        return at
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

"""Judges what requesters logged: no device had two holders, and nobody went before one who had come earlier.

``python lease_judge.py FOLDER`` prints the figures as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from vaws_mcp.worker.supervisor.tickets import overlap


@dataclass
class Ask:
    """One request with its times on the machine's monotonic clock; infinity is never."""

    request: str
    who: str
    keys: list[str] = field(default_factory=list)
    devices: list[int] = field(default_factory=list)
    asked: float = float("inf")
    ticketed: float = float("inf")
    granted: float = float("inf")
    held: float = float("inf")
    ended: float = float("inf")
    trouble: str | None = None


def read(folder: Path) -> tuple[list[Ask], int]:
    """Return all requests that were logged in a folder, and the number of kills."""
    events: list[dict[str, Any]] = []
    for path in folder.glob("events-*.jsonl"):
        events += [json.loads(line) for line in path.read_text().splitlines()]
    kills = {event["process"]: event["at"] for event in events if event["event"] == "kill"}
    asks: dict[str, Ask] = {}
    for event in sorted((event for event in events if "request" in event), key=lambda event: event["at"]):
        ask = asks.setdefault(event["request"], Ask(event["request"], event["who"]))
        _note(ask, event)
    for ask in asks.values():
        ask.ended = min(ask.ended, kills.get(ask.who, float("inf")))
    return list(asks.values()), len(kills)


def _note(ask: Ask, event: dict[str, Any]) -> None:
    at = event["at"]
    if event["event"] == "ask":
        ask.asked, ask.keys = at, event["keys"]
    elif event["event"] == "ticket":
        ask.ticketed = at
    elif event["event"] == "probe" and ask.ticketed < float("inf"):
        ask.granted = at  # a probe after the ticket is made with the leases in hand, and here it never says no
    elif event["event"] == "hold":
        ask.held, ask.devices, ask.trouble = at, event["devices"], event["trouble"]
    elif event["event"] == "release":
        ask.ended = at


def double_holders(asks: Iterable[Ask]) -> list[tuple[str, str, int]]:
    """Return pairs of requests that held a device at the same time."""
    found: list[tuple[str, str, int]] = []
    last: dict[int, Ask] = {}
    for ask in sorted((ask for ask in asks if ask.held < float("inf")), key=lambda ask: ask.granted):
        for device in ask.devices:
            before = last.get(device)
            if before is not None and before.ended > ask.granted:
                found.append((before.request, ask.request, device))
            if before is None or ask.ended > before.ended:
                last[device] = ask
    return found


def inversions(asks: Iterable[Ask]) -> list[tuple[str, str]]:
    """Return pairs of which the later one was granted while the earlier one still waited for the same things."""
    ordered = sorted((ask for ask in asks if ask.ticketed < float("inf")), key=lambda ask: ask.ticketed)
    granted = sorted((ask for ask in ordered if ask.granted < float("inf")), key=lambda ask: ask.granted)
    return [
        (early.request, late.request)
        for late in granted
        for early in ordered
        if early.ticketed < late.asked
        and late.granted < early.granted
        and late.granted < early.ended
        and overlap(early.keys, late.keys)
    ]


def figures(folder: Path) -> dict[str, Any]:
    """Return how much was seen and what was wrong. ``troubles``: why some went without the lease directory."""
    asks, kills = read(folder)
    held = [ask for ask in asks if ask.held < float("inf")]
    return {
        "holds": len(held),
        "kills": kills,
        "devices": sorted({device for ask in held for device in ask.devices}),
        "troubles": [ask.trouble for ask in held if ask.trouble is not None],
        "doubles": double_holders(asks),
        "inversions": inversions(asks),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(figures(Path(sys.argv[1]))))

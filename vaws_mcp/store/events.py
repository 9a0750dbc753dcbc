"""Append-only JSON lines that several processes may write and follow."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson


def append_event(path: Path, event: dict[str, Any], mode: int = 0o644) -> None:
    """Append one JSON line. One ``write`` on a file opened for appending keeps lines of several writers whole."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, mode)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, flags, mode)
    try:
        os.write(handle, orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS))
    finally:
        os.close(handle)


class Follower:
    """Reads the complete lines that were added since the last look. A line that is still being written waits."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset

    def new_events(self) -> Iterator[dict[str, Any]]:
        """Yield the events added since the last call; lines that are no JSON objects are passed over."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self.offset += end
        for line in data[:end].splitlines():
            try:
                event = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(event, dict):
                yield event

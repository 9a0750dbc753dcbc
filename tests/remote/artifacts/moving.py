"""Calls the transfer operations, and tells what a tree holds."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.progress import ProgressEvent
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.worker.engine.artifacts.staging import Staging
from vaws_mcp.workspace.artifacts.operations import artifact_manifest, artifact_pull, artifact_push

Answer = dict[str, Any]


class Caller:
    """A caller that keeps its connections between calls."""

    def __init__(self, state_dir: Path, endpoint: str, resources: Resources) -> None:
        self.state_dir = state_dir
        self.endpoint = endpoint
        self.resources = resources
        self.events: list[ProgressEvent] = []

    def context(self) -> Context:
        async def listen(event: ProgressEvent) -> None:
            self.events.append(event)

        return Context(state_dir=self.state_dir, resources=self.resources, sink=listen)

    async def push(self, local: Path | str, remote: Path | str, **more: Any) -> Answer:
        paths = {"local_path": str(local), "remote_path": str(remote)}
        return await invoke(artifact_push, {"endpoint": self.endpoint, **paths, **more}, self.context())

    async def pull(self, remote: Path | str, local: Path | str, **more: Any) -> Answer:
        paths = {"local_path": str(local), "remote_path": str(remote)}
        return await invoke(artifact_pull, {"endpoint": self.endpoint, **paths, **more}, self.context())

    async def manifest(self, path: Path | str, **more: Any) -> Answer:
        return await invoke(artifact_manifest, {"endpoint": self.endpoint, "path": str(path), **more}, self.context())


@dataclass(frozen=True)
class Mover:
    state_dir: Path
    endpoint: str

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Caller]:
        async with Resources() as resources:
            yield Caller(self.state_dir, self.endpoint, resources)


def contents(root: Path) -> dict[str, tuple[Any, ...]]:
    """Return everything at ``root`` by relative name: kind, mode, time, and bytes or link target."""
    found: dict[str, tuple[Any, ...]] = {}
    pending = [root]
    while pending:
        path = pending.pop()
        facts = path.lstat()
        mode, when = stat.S_IMODE(facts.st_mode), facts.st_mtime_ns
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", path.readlink(), when)
        elif path.is_dir():
            found[name] = ("folder", mode, when)
            pending += path.iterdir()
        else:
            found[name] = ("file", mode, when, path.read_bytes())
    return found


def leftovers(root: Path) -> list[Path]:
    """Return the staging directories below ``root``."""
    return list(root.rglob(".vaws-part-*"))


def staged(target: Path, *, inside: bool = False) -> int:
    """Return how many bytes wait beside a target."""
    parts = Path(os.fsdecode(Staging(os.fsencode(target), inside=inside).parts))
    try:
        return sum(path.stat().st_size for path in parts.iterdir())
    except FileNotFoundError:
        return 0

"""What an operation is given besides its request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import anyio

from vaws_mcp.core.progress import ProgressEvent, ProgressSink, silent

T = TypeVar("T")
Effect = Literal["read", "write", "destroy"]

CLOSE_BOUND_S = 10.0

log = logging.getLogger(__name__)


class Resources:
    """Long-lived things that calls of one process share, such as connections. Closed in reverse order at the end."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._items: dict[str, Any] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def get(self, key: str, make: Callable[[], Awaitable[T]], usable: Callable[[T], bool]) -> T:
        """Return the resource called ``key``; make it when it is missing or no longer ``usable``."""
        item = self._items.get(key)
        if item is not None and usable(item):
            return item
        async with self._locks.setdefault(key, anyio.Lock()):
            item = self._items.get(key)
            if item is not None and usable(item):
                return item
            item = await make()
            self._items[key] = item
            return item

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call ``close`` when the process is done with its resources."""
        self._stack.push_async_callback(close)

    def start_soon(self, work: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Carry out ``work(*args)`` in the background until it ends, or is cancelled when the resources are closed.

        It outlives the call that starts it, so it stands outside of any task group; an error ends only itself.
        """
        task = asyncio.create_task(work(*args))
        self._background.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background work ended with an error", exc_info=error)

    async def _end_background(self) -> None:
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_BOUND_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._end_background()
            with anyio.move_on_after(CLOSE_BOUND_S):
                await self._stack.aclose()
        self._items.clear()


@dataclass
class Context:
    """The surroundings of one call: where state lies, who listens to progress, and what to add to the answer.

    ``run_dir`` is set inside the process of a run. ``wait_s`` is how long the front door lets a call wait for a run.
    ``steps_total`` is the number of steps of the whole work, when that is known.
    ``effect`` is the operation's: an endpoint that is only read from refuses the others.
    ``partial`` holds result fields that must survive when the call is cancelled or fails.
    """

    state_dir: Path
    resources: Resources
    sink: ProgressSink = silent
    run_dir: Path | None = None
    warnings: list[str] = field(default_factory=list[str])
    simulated: bool = False
    wait_s: float | None = None
    effect: Effect = "read"
    partial: dict[str, Any] = field(default_factory=dict[str, Any])
    steps_done: int = 0
    steps_total: int | None = None

    async def progress(self, phase: str, message: str, **facts: Any) -> None:
        """Tell whoever waits what is going on. ``facts`` are further JSON fields of the event."""
        done = float(self.steps_done) if self.steps_total else None
        await self.sink(ProgressEvent(phase, message, done, self.steps_total, facts))

    async def advance(self, phase: str, message: str, **facts: Any) -> None:
        """Tell that one more of ``steps_total`` steps is finished."""
        self.steps_done += 1
        await self.progress(phase, message, **facts)

    def warn(self, message: str) -> None:
        """Add a sentence to the result's ``warnings`` (once)."""
        if message not in self.warnings:
            self.warnings.append(message)

    def now(self) -> datetime:
        """Return the present time in UTC."""
        return datetime.now(UTC)

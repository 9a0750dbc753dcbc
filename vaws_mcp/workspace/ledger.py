"""What this process has last seen of each file, so that nothing is written over a change that nobody has read.

A file that was never read may be written. Paths are known under the name of a request and under the real path that
the endpoint answered with.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.models import EndpointConfig

MOST_FILES = 10_000

Key = tuple[EndpointConfig, str]


class Ledger:
    """Hashes of files, the oldest forgotten first, and a lock for each file that is being written."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Key, str] = OrderedDict()
        self._real: OrderedDict[Key, str] = OrderedDict()
        self._locks: dict[Key, anyio.Lock] = {}

    def key(self, config: EndpointConfig, path: str) -> Key:
        """Return what a path is known under: its real path when that is known."""
        return config, self._real.get((config, path), path)

    def expected(self, key: Key) -> str | None:
        """Return the hash that the file had when it was last seen."""
        return self._seen.get(key)

    def remember(self, key: Key, sha256: str | None, requested: str | None) -> None:
        """Note the hash of a file, or with None that nothing is known of it; ``requested`` is another name of it."""
        config, path = key
        if requested is not None and requested != path:
            self._real[config, requested] = path
            self._real.move_to_end((config, requested))
        if sha256 is None:
            self._seen.pop(key, None)
        else:
            self._seen[key] = sha256
            self._seen.move_to_end(key)
        for known in (self._seen, self._real):
            if len(known) > MOST_FILES:
                known.popitem(last=False)

    @property
    def waiting(self) -> int:
        """Number of files that are being written."""
        return len(self._locks)

    @asynccontextmanager
    async def turn(self, key: Key) -> AsyncGenerator[None]:
        """Wait until nobody else of this process writes the file."""
        lock = self._locks.setdefault(key, anyio.Lock(fast_acquire=True))
        try:
            async with lock:
                yield
        finally:
            # The last one cleans up; whoever waits keeps the lock in use.
            facts = lock.statistics()
            if not facts.locked and not facts.tasks_waiting:
                self._locks.pop(key, None)


async def _ledger(ctx: Context) -> Ledger:
    async def make() -> Ledger:
        return Ledger()

    return await ctx.resources.get("ledger of files", make, lambda _ledger: True)


async def remember(
    ctx: Context, endpoint: Endpoint, path: str, sha256: str | None, *, requested: str | None = None
) -> None:
    """Note what a file was when it was read or written. ``path`` is its real path, ``requested`` the caller's name."""
    ledger = await _ledger(ctx)
    ledger.remember((endpoint.config, path), sha256, requested)


async def expected(ctx: Context, endpoint: Endpoint, path: str) -> str | None:
    """Return the hash that a file had when it was last seen; None when it was not seen."""
    ledger = await _ledger(ctx)
    return ledger.expected(ledger.key(endpoint.config, path))


@asynccontextmanager
async def guarded(ctx: Context, endpoint: Endpoint, path: str, given: str | None = None) -> AsyncGenerator[str | None]:
    """Give the hash that a file must still have when it is written now: ``given``, else that of its last reading.

    Writers of the same file wait for each other, so that each one's result is what the next one expects.

    Raises: Failure ``stale_read`` in place of the endpoint's ``stale``, when the hash is that of the last reading.
    """
    ledger = await _ledger(ctx)
    key = ledger.key(endpoint.config, path)
    async with ledger.turn(key):
        seen = ledger.expected(key) if given is None else None
        try:
            yield seen or given
        except Failure as failure:
            if failure.code != "stale" or seen is None:
                raise
            raise _stale_read(failure, path, seen) from None


def _stale_read(failure: Failure, path: str, seen: str) -> Failure:
    present = failure.fields.get("present_sha256", "not known")
    now = "it is gone" if present is None else f"its sha256 is {present}"
    return Failure(
        "stale_read",
        f"{path} has changed since it was last read or written here: {now}, then it was {seen}",
        layer="caller",
        hint="Read it again with remote_read and look at what changed; or pass expected_sha256.",
        retry_safe=True,
        fields=failure.fields,
    )

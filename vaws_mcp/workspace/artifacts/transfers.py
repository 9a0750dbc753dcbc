"""The transfers of one process: they go on when a call stops waiting, and the same call finds them again."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Cancelled
from vaws_mcp.core.progress import ProgressEvent, silent
from vaws_mcp.endpoint.bulk import bulk_channel
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.worker.engine.artifacts.entries import bytes_of
from vaws_mcp.worker.engine.artifacts.flow import Place, Watch, receive_tree, send_tree
from vaws_mcp.worker.engine.artifacts.link import Link
from vaws_mcp.worker.engine.artifacts.plan import Wish
from vaws_mcp.worker.wire import Head
from vaws_mcp.workspace.artifacts.models import PullRequest, PushRequest

PROGRESS_EVERY_S = 0.5


class Transfer:
    """One transfer: what is to be done, how far it is, and how it ended."""

    def __init__(self, config: EndpointConfig, request: PushRequest | PullRequest) -> None:
        self.config = config
        self.request = request
        self.pushes = isinstance(request, PushRequest)
        self.local_path = str(Path(request.local_path).expanduser().absolute())
        self.watch = Watch()
        self.done = anyio.Event()
        self.facts: dict[str, Any] | None = None
        self.failure: Exception | None = None
        self.scope = anyio.CancelScope()

    @property
    def key(self) -> str:
        """What makes two calls ask for the same transfer."""
        asked = self.request.model_dump_json(exclude={"wait_s"})
        return f"transfer {self.config.model_dump_json()} {self.pushes} {self.local_path} {asked}"

    async def run(self, ctx: Context) -> None:
        """Do it, and keep how it ended for those who wait."""
        try:
            with self.scope:
                async with bulk_channel(ctx, self.config) as channel:
                    self.facts = await channel.converse(self._push if self.pushes else self._pull)
        except Exception as error:  # noqa: BLE001 - the boundary of the background: whoever waits raises it
            self.failure = error
        finally:
            if self.facts is None and self.failure is None:
                self.failure = Cancelled("cancelled", "the transfer was ended; nothing half is at the target")
            self.done.set()

    def _opening(self, direction: str) -> Head:
        asked = self.request
        wish = {"checksum": asked.checksum, "delete": asked.delete, "dry_run": asked.dry_run}
        name = Path(asked.local_path).name or "."
        where = {"direction": direction, "path": asked.remote_path, "name": name}
        return {"call": "bulk", "params": {**where, **wish, **policy_params(self.config)}}

    def _push(self, link: Link) -> dict[str, Any]:
        link.send(self._opening("push"))
        send_tree(link, bytes_of(self.local_path), self.watch, dry_run=self.request.dry_run)
        head, _size = link.expect("done")
        return dict(head["done"])

    def _pull(self, link: Link) -> dict[str, Any]:
        asked = self.request
        link.send(self._opening("pull"))
        wish = Wish(asked.checksum, asked.delete, asked.dry_run)
        # The name is that of the path asked for: the other end does not choose names outside of the target.
        local = self.request.local_path if asked.local_path.endswith("/") else self.local_path
        place = Place(local, Path(asked.remote_path).name, os.path.realpath)
        return receive_tree(link, place, wish, self.watch)

    async def wait(self, ctx: Context, wait_s: float | None) -> None:
        """Wait until it is done, for a bounded time, and report progress in bytes; a cancel ends the transfer.

        Raises: Failure that the transfer ended with.
        """
        try:
            with anyio.move_on_after(wait_s) if wait_s is not None else anyio.CancelScope():
                while not self.done.is_set():
                    with anyio.move_on_after(PROGRESS_EVERY_S):
                        await self.done.wait()
                    await self._report(ctx)
        except anyio.get_cancelled_exc_class():
            self.scope.cancel()
            with anyio.CancelScope(shield=True):
                await self.done.wait()
            raise
        if self.failure is not None:
            raise self.failure

    async def _report(self, ctx: Context) -> None:
        moved, total = self.watch.moved, self.watch.total
        if total is None:
            return
        message = f"{moved / 1e6:.1f} of {total / 1e6:.1f} MB"
        facts = {"unit": "bytes"}
        await ctx.sink(ProgressEvent("transfer", message, float(moved), float(max(total, moved)), facts))


class _Transfers:
    """Those under way in this process, by what was asked for."""

    def __init__(self) -> None:
        self.running: dict[str, Transfer] = {}

    async def run(self, transfer: Transfer, ctx: Context) -> None:
        try:
            await transfer.run(ctx)
        finally:
            del self.running[transfer.key]


async def begin(ctx: Context, config: EndpointConfig, request: PushRequest | PullRequest) -> Transfer:
    """Start a transfer in the background, or return the one that the same call started and that is not over."""
    transfers = await ctx.resources.get("transfers", _no_transfers, lambda _known: True)
    transfer = Transfer(config, request)
    known = transfers.running.get(transfer.key)
    if known is not None:
        return known
    transfers.running[transfer.key] = transfer
    ctx.resources.start_soon(transfers.run, transfer, replace(ctx, sink=silent, warnings=[], partial={}))
    return transfer


async def _no_transfers() -> _Transfers:
    return _Transfers()


def elapsed_s(since: float) -> float:
    """Return the seconds since a moment of ``time.perf_counter``, never 0."""
    return max(time.perf_counter() - since, 1e-6)

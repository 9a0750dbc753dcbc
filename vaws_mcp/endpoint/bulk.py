"""Channels for bulk data: a worker each, beside the one that answers requests. They are kept for the next transfer."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.channel import failure_from
from vaws_mcp.endpoint.connect import open_worker
from vaws_mcp.endpoint.failures import transfer_cut
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.policy import check_effect
from vaws_mcp.endpoint.stream import WorkerStream
from vaws_mcp.worker.engine.artifacts.link import QUEUE_BYTES, ByteQueue, Link, LinkLost, PeerRefused
from vaws_mcp.worker.refusal import Refusal
from vaws_mcp.worker.wire import FrameError

T = TypeVar("T")

# Each is an SSH session, and servers allow ten by default.
MAX_CHANNELS = 3
WINDOW_BYTES = 6 << 20


class BulkChannel:
    """Connects the event loop's stream to code that blocks in a thread. At most a few MB wait in either direction."""

    def __init__(self, where: str, stream: WorkerStream) -> None:
        self.where = where
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._inbox = ByteQueue(self._on_room)
        self._outbox = ByteQueue()
        self._link = Link(self._inbox, self._send_chunks)
        self._wake = asyncio.Event()
        self._fresh: list[bytes] = []
        self._held = False

    @property
    def usable(self) -> bool:
        """Whether another transfer can be made over it."""
        return self._inbox.closed is None

    # Called in the event loop.

    def feed(self, data: bytes) -> None:
        """Take received bytes. What comes in one turn of the loop goes to the thread together: waking it costs more."""
        if not self._fresh:
            self._loop.call_soon(self._pass_on)
        self._fresh.append(data)

    def _pass_on(self) -> None:
        """Give the thread what has come; when too much waits there, the stream is held."""
        data, self._fresh = b"".join(self._fresh), []
        if data and self._inbox.closed is None and self._inbox.put(data) >= QUEUE_BYTES and not self._held:
            self._held = True
            self._stream.hold(held=True)

    def lose(self, why: str) -> None:
        """Note that nothing more will come."""
        self._pass_on()
        self._inbox.close(why)
        self._outbox.close(why)
        self._wake.set()

    def close(self, why: str) -> None:
        """End the worker of this channel. What it staged stays for the next try."""
        self.lose(why)
        self._stream.close()
        self._go_on()

    def _go_on(self) -> None:
        if self._held:
            self._held = False
            self._stream.hold(held=False)

    async def _pump(self) -> None:
        """Write what the thread has queued, no faster than the stream takes it."""
        while self._outbox.closed is None:
            await self._wake.wait()
            self._wake.clear()
            chunks = self._outbox.take_all()
            for chunk in chunks:
                self._stream.write_parts([chunk])
                await self._stream.drained()
                self._outbox.release(len(chunk))

    # Called in the thread.

    def _on_room(self) -> None:
        self._loop.call_soon_threadsafe(self._go_on)

    def _send_chunks(self, chunks: list[bytes]) -> None:
        self._outbox.wait_room()
        for chunk in chunks:
            self._outbox.put(chunk)
        self._loop.call_soon_threadsafe(self._wake.set)

    async def converse(self, talk: Callable[[Link], T]) -> T:
        """Run ``talk``, which blocks, in a thread, and return what it gives.

        When the caller is cancelled, the channel is closed and the thread has ended before this returns.

        Raises: Failure.
        """
        pump = asyncio.create_task(self._pump())
        work = self._loop.create_future()
        thread = threading.Thread(target=self._run, args=(talk, work), name="vaws-transfer", daemon=True)
        thread.start()
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.close("cancelled")
            with anyio.CancelScope(shield=True):
                await asyncio.wait([work])
            work.exception()
            raise
        except (LinkLost, PeerRefused, FrameError, Refusal) as error:
            raise self._failure(error) from None
        finally:
            pump.cancel()

    def _run(self, talk: Callable[[Link], T], work: "asyncio.Future[T]") -> None:
        try:
            result = talk(self._link)
        except Exception as error:  # noqa: BLE001 - the boundary of the thread: it is raised again in the loop
            self._loop.call_soon_threadsafe(work.set_exception, error)
        else:
            self._loop.call_soon_threadsafe(work.set_result, result)

    def _failure(self, error: LinkLost | PeerRefused | FrameError | Refusal) -> Failure:
        if isinstance(error, PeerRefused):
            return failure_from(error.error, "the transfer")
        if isinstance(error, Refusal):
            # The same code refuses on both ends; here its environment is this machine.
            here = error.as_error()
            return failure_from({**here, "layer": "local" if error.layer == "remote_env" else error.layer}, "transfer")
        return transfer_cut(self.where, str(error))


class _Pool:
    def __init__(self) -> None:
        self.idle: list[BulkChannel] = []
        self.slots = anyio.Semaphore(MAX_CHANNELS)


@asynccontextmanager
async def bulk_channel(ctx: Context, config: EndpointConfig) -> AsyncGenerator[BulkChannel]:
    """Lend a channel: one that is idle, or a new one. After an error it is closed, for nobody knows where it stands.

    Raises: Failure as ``connected``.
    """
    check_effect(config, ctx.effect)
    pool = await ctx.resources.get(f"bulk {config.model_dump_json()}", _new_pool, lambda _pool: True)
    async with pool.slots:
        channel = _idle(pool) or await _open(ctx, config)
        try:
            yield channel
        except BaseException:
            channel.close("the transfer failed")
            raise
        pool.idle.append(channel)


async def _new_pool() -> _Pool:
    return _Pool()


def _idle(pool: _Pool) -> BulkChannel | None:
    while pool.idle:
        channel = pool.idle.pop()
        if channel.usable:
            return channel
    return None


async def _open(ctx: Context, config: EndpointConfig) -> BulkChannel:
    stream, hello, _timing = await open_worker(ctx, config, WINDOW_BYTES)
    channel = BulkChannel(config.address, stream)
    stream.attach(channel, hello.rest)
    return channel

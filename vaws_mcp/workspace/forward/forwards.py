"""The forwards of one process: each listens, dials for every connection, and counts."""

import asyncio
import logging
from dataclasses import replace

import anyio
from anyio.abc import SocketStream

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, Refused
from vaws_mcp.core.progress import silent
from vaws_mcp.endpoint.dial import dial
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.store.ids import new_id
from vaws_mcp.workspace.forward.listening import Place
from vaws_mcp.workspace.forward.models import ForwardRow
from vaws_mcp.workspace.forward.pump import Traffic, pump, reset

MAX_CONNECTIONS = 256
# Each connection into a container is an SSH session of its own, and servers allow ten by default.
MAX_CONTAINER_CONNECTIONS = 6
CLOSE_BOUND_S = 10.0

log = logging.getLogger(__name__)


class Forward:
    """One listener whose connections lead to a port that an endpoint reaches."""

    def __init__(self, ctx: Context, config: EndpointConfig, target: tuple[str, int], place: Place) -> None:
        self.forward_id = new_id("fwd")
        self.config = config
        self.host, self.port = target
        self.place = place
        self.ended = anyio.Event()
        self.traffic = Traffic()
        self.open = self.total = self.refused = self.broken = 0
        self.last_error: str | None = None
        # The call that opened it will have been answered: later connections warn and report to nobody.
        self._ctx = replace(ctx, sink=silent, warnings=[], partial={})
        self._scope = anyio.CancelScope()
        self._slots = anyio.Semaphore(MAX_CONTAINER_CONNECTIONS if config.container else MAX_CONNECTIONS)

    @property
    def target(self) -> str:
        """The port it leads to."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def serve(self) -> None:
        """Take connections until it is closed; then those in use are cut."""
        try:
            with self._scope:
                async with self.place.listener:
                    await self.place.listener.serve(self._connection)
        finally:
            self.place.remove()
            self.ended.set()

    async def _connection(self, client: SocketStream) -> None:
        _read_nothing_yet(client)
        self.total += 1
        self.open += 1
        try:
            async with self._slots:
                await self._carry(client)
        except Failure as failure:
            self.refused += 1
            self.last_error = failure.message
            await reset(client)
        except Exception as error:  # the boundary: one connection must not end the others
            log.exception("a connection of %s failed with a bug of ours", self.forward_id)
            self.broken += 1
            self.last_error = f"{type(error).__name__}: {error}"
            await reset(client)
        finally:
            self.open -= 1

    async def _carry(self, client: SocketStream) -> None:
        target = await dial(self._ctx, self.config, self.host, self.port)
        if not await pump(client, target, self.traffic):
            self.broken += 1
            self.last_error = f"a connection to {self.target} was broken off"

    async def close(self) -> None:
        """Stop listening, cut the connections in use, and return when that is done."""
        self._scope.cancel()
        with anyio.move_on_after(CLOSE_BOUND_S):
            await self.ended.wait()

    def row(self) -> ForwardRow:
        """Return what is known about it."""
        return ForwardRow(
            forward_id=self.forward_id,
            endpoint=self.config.address,
            target=self.target,
            local=self.place.local,
            url=self.place.url,
            open_connections=self.open,
            connections=self.total,
            refused=self.refused,
            broken=self.broken,
            last_error=self.last_error,
            bytes_up=self.traffic.up,
            bytes_down=self.traffic.down,
        )


def _read_nothing_yet(client: SocketStream) -> None:
    """Keep what a client sends in its socket until the target is reached.

    An accepted stream of anyio collects without bound until ``receive`` is called for the first time.
    """
    transport = getattr(client, "_transport", None)
    if isinstance(transport, asyncio.ReadTransport):
        transport.pause_reading()


class Forwards:
    """All forwards of one process."""

    def __init__(self) -> None:
        self._known: dict[str, Forward] = {}

    def start(self, ctx: Context, forward: Forward) -> None:
        """Let a forward serve in the background, until it is closed or the process ends."""
        self._known[forward.forward_id] = forward
        ctx.resources.on_close(forward.place.listener.aclose)  # also when it never came to serve
        ctx.resources.start_soon(forward.serve)

    def rows(self) -> list[ForwardRow]:
        """Return those that are open, oldest first."""
        return [forward.row() for forward in self._known.values() if not forward.ended.is_set()]

    async def close(self, forward_id: str) -> ForwardRow:
        """Close one and return its last figures.

        Raises: Refused ``forward_unknown``.
        """
        forward = self._known.pop(forward_id, None)
        if forward is None:
            raise Refused(
                "forward_unknown",
                f"this process has no forward {forward_id!r}",
                hint="action=list names the open ones. A forward lives in the process that opened it.",
            )
        await forward.close()
        return forward.row()


async def forwards_of(ctx: Context) -> Forwards:
    """Return the forwards of this process."""

    async def make() -> Forwards:
        return Forwards()

    return await ctx.resources.get("forwards", make, lambda _known: True)

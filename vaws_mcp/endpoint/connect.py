"""Connections to endpoints, one per endpoint and process, made when first needed and again when lost."""

import time
from dataclasses import dataclass
from typing import Any

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.endpoint.archive import NEWER_PYTHONS, PYTHONS, start_argv
from vaws_mcp.endpoint.channel import Answer, Channel, EventSink
from vaws_mcp.endpoint.containers import local_id
from vaws_mcp.endpoint.failures import no_python, worker_failed
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.policy import check_effect
from vaws_mcp.endpoint.startup import Hello, UnfitPython, greet
from vaws_mcp.endpoint.stream import WorkerStream

WORKER_START_S = 45.0


@dataclass
class Endpoint:
    """A connected endpoint. ``hello`` holds what its worker says about itself; ``timing_ms`` what connecting took."""

    config: EndpointConfig
    channel: Channel
    hello: dict[str, Any]
    timing_ms: dict[str, float]

    @property
    def simulated(self) -> bool:
        """Whether this is the simulated container."""
        return bool(self.hello.get("simulated"))

    def env_spec(self, *, refresh: bool = False) -> dict[str, Any]:
        """Say to the worker which environment commands of this endpoint start with."""
        config = self.config
        return {
            "env_files": list(config.env_files),
            "find_cann": config.cann,
            "cxx_abi": config.cxx_abi,
            "venv": config.venv,
            "refresh": refresh,
        }

    @property
    def usable(self) -> bool:
        """Whether calls can be made as far as we know."""
        return self.channel.closed is None

    async def call(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        body: bytes = b"",
        deadline_s: float = 60.0,
        retry_safe: bool = True,
        on_event: EventSink | None = None,
    ) -> Answer:
        """Ask the worker; see ``Channel.call``."""
        return await self.channel.call(
            method, params or {}, body=body, deadline_s=deadline_s, retry_safe=retry_safe, on_event=on_event
        )


async def connected(ctx: Context, config: EndpointConfig) -> Endpoint:
    """Return the endpoint's connection, made anew when there is none or it was lost.

    Results obtained on a simulated endpoint are marked: the context notes it.

    Raises: Failure that names the layer: transport, remote_env or local. Blocked ``read_only``.
    """
    check_effect(config, ctx.effect)
    key = f"endpoint {config.model_dump_json()}"
    endpoint = await ctx.resources.get(key, lambda: _connect(ctx, config), lambda known: known.usable)
    ctx.simulated = ctx.simulated or endpoint.simulated
    return endpoint


async def renewed(ctx: Context, endpoint: Endpoint) -> Endpoint:
    """Return this endpoint's connection, made anew when it was lost: cleaning up must not fail for that.

    Raises: as ``connected``.
    """
    return endpoint if endpoint.usable else await connected(ctx, endpoint.config)


async def _connect(ctx: Context, config: EndpointConfig) -> Endpoint:
    stream, hello, timing = await open_worker(ctx, config)
    channel = Channel(config.address, stream)
    stream.attach(channel, hello.rest)
    return Endpoint(config, channel, hello.facts, timing)


async def open_worker(
    ctx: Context, config: EndpointConfig, window: int | None = None
) -> tuple[WorkerStream, Hello, dict[str, float]]:
    """Start a worker on the first Python that is new enough: the endpoint's own, else the usual names, else newer.

    Returns its stream, what it said, and how long it took. ``window`` bounds what may wait here when nobody takes it.

    Units: milliseconds, bytes.

    Raises: Failure ``python_missing`` that names the version found; those of ``_start``.
    """
    found: str | None = None
    for pythons in [(config.python,)] if config.python else [PYTHONS, NEWER_PYTHONS]:
        try:
            return await _start(ctx, config, pythons, window)
        except UnfitPython as unfit:
            found = found or unfit.version
    raise no_python(config.address, config.python or "python3", found)


async def _start(
    ctx: Context, config: EndpointConfig, pythons: tuple[str, ...], window: int | None
) -> tuple[WorkerStream, Hello, dict[str, float]]:
    begin = time.perf_counter()
    argv = start_argv(pythons)
    stream, reached = await _open(ctx, config, argv, window)
    hello: Hello | None = None
    try:
        with anyio.move_on_after(WORKER_START_S):
            hello = await greet(config.address, stream)
    finally:
        if hello is None:
            stream.close()
    if hello is None:
        raise worker_failed(config.address, f"it did not answer within {WORKER_START_S:.0f} s", stream.complaint())
    ready = time.perf_counter()
    timing = {
        "connect": round((reached - begin) * 1000, 1),
        "worker": round((ready - reached) * 1000, 1),
        "pushed": float(hello.pushed),
    }
    return stream, hello, timing


async def _open(
    ctx: Context, config: EndpointConfig, argv: list[str], window: int | None
) -> tuple[WorkerStream, float]:
    """Start the worker's command where the endpoint says, and note when the place was reached."""
    if config.is_local:
        return await _open_local(ctx, config, argv)
    from vaws_mcp.endpoint import ssh

    link = await host_link(ctx, config)
    if config.container:
        full_id = await ssh.container_id(link, config.runtime, config.container)
        argv = [config.runtime, "exec", "-i", full_id, *argv]
    reached = time.perf_counter()
    return await ssh.SshStream.start(link, argv, window or ssh.WINDOW_BYTES), reached


async def host_link(ctx: Context, config: EndpointConfig) -> Any:
    """Return the SSH connection (``ssh.SshLink``) to an endpoint's host, which all its containers share.

    Raises: Failure with layer transport. Blocked ``read_only``.
    """
    check_effect(config, ctx.effect)
    return await ctx.resources.get(
        f"host {config.model_copy(update={'container': None}).model_dump_json()}",
        lambda: _link(ctx, config),
        lambda known: known.alive,
    )


async def _link(ctx: Context, config: EndpointConfig) -> Any:
    from vaws_mcp.endpoint import ssh

    link = await ssh.connect(config, ctx.state_dir)
    for note in link.pinned:
        ctx.warn(note)

    async def close() -> None:
        link.close()
        await link.connection.wait_closed()

    ctx.resources.on_close(close)
    return link


async def _open_local(ctx: Context, config: EndpointConfig, argv: list[str]) -> tuple[WorkerStream, float]:
    from vaws_mcp.endpoint.local import LocalStream

    if config.container:
        argv = [config.runtime, "exec", "-i", await local_id(config, config.container), *argv]
    reached = time.perf_counter()
    stream = await LocalStream.start(config.address, argv)
    ctx.resources.on_close(stream.aclose)
    return stream, reached

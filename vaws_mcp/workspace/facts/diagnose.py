"""Connecting once more, phase by phase, to see where the time goes or where it fails."""

import socket
import statistics
import time
from dataclasses import replace

import anyio

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import Endpoint, connected, host_link
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.workspace.facts.models import Phase

ROUND_TRIPS = 9
RESOLVE_BOUND_S = 20.0


class _Steps:
    """The phases so far, and when the present one began."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self._begin = time.perf_counter()

    def begin(self) -> None:
        self._begin = time.perf_counter()

    def done(self, name: str, note: str | None = None, ms: float | None = None) -> None:
        took = (time.perf_counter() - self._begin) * 1000 if ms is None else ms
        self.phases.append(Phase(phase=name, ms=round(took, 2), note=note))
        self._begin = time.perf_counter()


async def diagnose(ctx: Context, config: EndpointConfig) -> list[Phase]:
    """Connect anew, beside the connection that calls share, and return how long each phase took.

    Raises: Failure of connecting; its field ``diagnosis`` has the phases before it and the one that failed.
    """
    steps = _Steps()
    try:
        async with Resources() as own:
            mine = replace(ctx, resources=own)
            if not config.is_local:
                await _reach_host(mine, config, steps)
            endpoint = await connected(mine, config)
            ctx.simulated = ctx.simulated or mine.simulated
            if config.container:
                steps.done("container", config.container, endpoint.timing_ms["connect"])
            note = "the worker was sent" if endpoint.timing_ms["pushed"] else "the worker was there"
            steps.done("worker", note, endpoint.timing_ms["worker"])
            await _round_trips(endpoint, steps)
    except Failure as failure:
        steps.done(failure.phase or "connect", failure.message)
        raise failure.carrying(diagnosis=[phase.model_dump() for phase in steps.phases]) from None
    return steps.phases


async def _reach_host(ctx: Context, config: EndpointConfig, steps: _Steps) -> None:
    from vaws_mcp.endpoint import ssh

    first = ssh.first_host(config)
    if first is None:
        steps.done("resolve", "left to the ProxyCommand of ~/.ssh/config", 0.0)
    else:
        steps.begin()
        steps.done("resolve", await _addresses(*first))
    link = await host_link(ctx, config)
    for hop in link.hops:
        steps.done("tcp", hop.where, hop.tcp_ms)
        steps.done("ssh", f"key exchange and authentication with {hop.where}", hop.ssh_ms)


async def _addresses(host: str, port: int) -> str:
    """Return what a name resolves to; when it does not, connecting says so."""
    try:
        with anyio.fail_after(RESOLVE_BOUND_S):
            found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return f"{host} cannot be resolved: {error or 'no answer in time'}"
    return f"{host} is {', '.join(dict.fromkeys(str(entry[4][0]) for entry in found))}"


async def _round_trips(endpoint: Endpoint, steps: _Steps) -> None:
    taken: list[float] = []
    for _number in range(ROUND_TRIPS):
        begin = time.perf_counter()
        await endpoint.call("ping")
        taken.append((time.perf_counter() - begin) * 1000)
    steps.done("first_round_trip", None, taken[0])
    steps.done("round_trip", f"median of {ROUND_TRIPS - 1}", statistics.median(taken[1:]))

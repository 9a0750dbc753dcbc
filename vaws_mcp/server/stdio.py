"""The server process: serve one client over stdio until it leaves or SIGTERM arrives."""

import gc
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NoReturn

# Imports allocate much and free little; collecting garbage in between only costs start-up time.
gc.disable()

import anyio  # noqa: E402
from mcp.server.lowlevel import Server  # noqa: E402

from vaws_mcp import __version__  # noqa: E402
from vaws_mcp.core.context import Resources  # noqa: E402
from vaws_mcp.server.tools import Serving, call_tool, list_tools  # noqa: E402
from vaws_mcp.server.transport import fill_closed_streams, stdio_streams  # noqa: E402
from vaws_mcp.store.statedir import find_state_dir  # noqa: E402

INSTRUCTIONS = """Work on remote Huawei Ascend NPU containers: shell and files (remote_*), managed vLLM services, and
benchmarks that compare git states.
Work that is recorded needs a task: call task_create once and pass its context_file. Long work answers `running` with a
run_id after at most 45 s: follow the hint and call run_wait until it has ended. Every answer is one JSON object with
status, outcome, summary and, on failure, error{layer, code, message, hint}."""


def serve() -> int:
    """Serve MCP over standard input and output. Returns the exit code: 0, also after SIGTERM."""
    fill_closed_streams()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    anyio.run(_serve)
    _leave()


def _leave() -> NoReturn:
    # Interpreter teardown of the loaded libraries takes 0.2 s and has nothing left to do.
    sys.stderr.flush()
    os._exit(0)


async def _serve() -> None:
    server = Server(
        "vaws-mcp",
        version=__version__,
        title="vaws: remote Ascend NPU containers",
        instructions=INSTRUCTIONS,
        lifespan=_lifespan,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    server.middleware.clear()  # it only makes spans for OpenTelemetry, which nobody collects here
    async with anyio.create_task_group() as group, stdio_streams() as (incoming, outgoing):
        gc.freeze()  # what start-up made stays; looking through it again and again costs time
        gc.enable()
        with anyio.CancelScope() as serving:
            group.start_soon(_cancel_on_sigterm, serving)
            await server.run(incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel()


@asynccontextmanager
async def _lifespan(_server: Server[Serving]) -> AsyncGenerator[Serving]:
    async with Resources() as resources:
        yield Serving(find_state_dir(), resources)


async def _cancel_on_sigterm(serving: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _number in signals:
            serving.cancel()
            return

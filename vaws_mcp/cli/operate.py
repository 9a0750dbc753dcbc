"""Carrying out an operation from the command line."""

import logging
import signal
import sys
from pathlib import Path
from typing import Any

import anyio

from vaws_mcp.cli.commands import Parser, respond
from vaws_mcp.cli.flags import add_options, arguments_of
from vaws_mcp.cli.output import print_json, progress_to_stderr
from vaws_mcp.cli.show import show
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.envelope import Stopwatch, exit_code, failed
from vaws_mcp.core.failures import Cancelled, Failure
from vaws_mcp.core.operation import Operation
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.store.statedir import find_state_dir


def run_operation(operation: Operation, words: list[str]) -> int:
    """Parse the options of an operation, carry it out, print its answer and return the exit code."""
    parser = Parser(prog=f"remote-dev {operation.command}", description=operation.description)
    add_options(parser, operation)
    parser.add_argument("--json", action="store_true", dest="as_json", help="Print JSON also on a terminal.")
    given = parser.parse(words)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    try:
        state_dir = find_state_dir()
    except Failure as failure:
        return respond(operation.command, failure)
    answer = anyio.run(_carry_out, operation, arguments_of(given, operation), state_dir)
    if given.as_json or not sys.stdout.isatty():
        print_json(answer)
    else:
        show(answer)
    return exit_code(answer)


async def _carry_out(operation: Operation, arguments: dict[str, Any], state_dir: Path) -> dict[str, Any]:
    """Carry the operation out under a scope that Ctrl-C and SIGTERM cancel."""
    watch = Stopwatch()
    answer: dict[str, Any] | None = None
    with progress_to_stderr() as sink, anyio.CancelScope() as work:
        async with anyio.create_task_group() as group, Resources() as resources:
            group.start_soon(_cancel_on_signal, work)
            ctx = Context(state_dir=state_dir, resources=resources, sink=sink)
            answer = await invoke(operation, arguments, ctx)
            group.cancel_scope.cancel()
    if answer is not None:
        return answer
    left = operation.run_kind and arguments.get("on_cancel") != "stop"
    hint = "A run that was started goes on: run-list shows it, run-cancel ends it." if left else None
    return failed(operation.name, Cancelled("cancelled", "interrupted", layer="caller", hint=hint), watch, None)


async def _cancel_on_signal(work: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _number in signals:
            work.cancel()
            return

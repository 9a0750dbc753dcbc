"""One call of an operation, from arguments to the finished answer."""

import logging
from typing import Any

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.envelope import Stopwatch, failed, succeeded
from vaws_mcp.core.failures import Cancelled, Failure
from vaws_mcp.core.models import Request, Result
from vaws_mcp.core.operation import Operation
from vaws_mcp.dispatch.arguments import parse_request
from vaws_mcp.store.audit import audit
from vaws_mcp.taskstore.reach import check_allowed

log = logging.getLogger(__name__)


async def invoke(operation: Operation, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
    """Carry out an operation and return its answer, whatever happens; only cancellation passes through.

    An operation that can take long is handed to a run process, unless this is that process.
    """
    watch = Stopwatch()
    ctx.effect = operation.effect
    try:
        request = parse_request(operation, arguments, ctx)
        if operation.check is not None:
            operation.check(request)
        if operation.check_with is not None:
            operation.check_with(request, ctx)
        answer = await _carry_out(operation, request, ctx, watch)
    except anyio.get_cancelled_exc_class():
        cancelled = Cancelled("cancelled", f"{operation.name} was cancelled", layer="caller")
        _audit(operation, arguments, failed(operation.name, cancelled, watch, ctx), ctx)
        raise
    except Failure as failure:
        answer = failed(operation.name, failure, watch, ctx)
    except OSError as error:
        log.exception("%s failed with an error of this machine", operation.name)
        answer = failed(operation.name, _local_error(error, ctx), watch, ctx)
    except Exception as error:
        log.exception("%s failed with a bug of ours", operation.name)
        answer = failed(operation.name, _bug(error), watch, ctx)
    _audit(operation, arguments, answer, ctx)
    return answer


def _audit(operation: Operation, arguments: dict[str, Any], answer: dict[str, Any], ctx: Context) -> None:
    """Note a mutating call. The front door that handed a run over has noted it, so the run's process does not.

    An operation that only looks this time says so in its context.
    """
    if ctx.effect == "read" or ctx.run_dir is not None:
        return
    try:
        audit(ctx.state_dir, operation.name, arguments, answer)
    except OSError as error:
        # The work is done: a full disk must not take its answer away.
        answer["warnings"] = [*answer.get("warnings", []), f"this call is not in audit.jsonl: {error}"]


async def _carry_out(operation: Operation, request: Request, ctx: Context, watch: Stopwatch) -> dict[str, Any]:
    looks = operation.at_once is not None and operation.at_once(request)
    if operation.run_kind and ctx.run_dir is None and not looks:
        from vaws_mcp.dispatch.detach import run_detached

        check_allowed(ctx, request)
        return await run_detached(operation, request, ctx, watch)
    result: Result = await operation(request, ctx)
    return succeeded(operation.name, result, watch, ctx)


def _local_error(error: OSError, ctx: Context) -> Failure:
    return Failure(
        "local_file_error",
        f"a file of this machine cannot be used: {error}",
        layer="local",
        hint=f"Is {ctx.state_dir} (VAWS_STATE_DIR) a directory that can be written, with space left?",
    )


def _bug(error: Exception) -> Failure:
    return Failure(
        "internal_error",
        f"{type(error).__name__}: {error}",
        layer="local",
        hint="This is a defect of remote-dev. The log on standard error has the traceback.",
    )

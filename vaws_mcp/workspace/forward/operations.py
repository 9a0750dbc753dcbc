"""remote_forward."""

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.operation import operation
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.workspace.forward.forwards import Forward, Forwards, forwards_of
from vaws_mcp.workspace.forward.listening import listen_port, listen_socket
from vaws_mcp.workspace.forward.models import ForwardRequest, ForwardResult


@operation(
    "remote_forward",
    title="Forward a local port",
    effect="write",
    timeout_s=None,
    positionals=("remote_port",),
    aliases=(("port", "remote_port"),),
)
async def remote_forward(request: ForwardRequest, ctx: Context) -> ForwardResult:
    """Make a port that the endpoint reaches available on this machine, for a browser, curl or a profiler.

    `open` answers at once with the local address, which listens on the loopback interface only; the forward lives until
    `close` or the end of this server. On the command line it lives until the command is interrupted. A lost connection
    is made anew for the next client. `list` shows what went through and what was refused.
    """
    forwards = await forwards_of(ctx)
    if request.action == "list":
        rows = forwards.rows()
        return ForwardResult(forwards=rows, summary=f"{len(rows)} open forwards")
    if request.action == "close":
        row = await forwards.close(str(request.forward_id))
        return ForwardResult(forwards=[row], status="closed", summary=f"closed {row.local} -> {row.target}")
    return await _open(request, ctx, forwards)


async def _open(request: ForwardRequest, ctx: Context, forwards: Forwards) -> ForwardResult:
    endpoint = await reach(ctx, request)
    place = await (listen_socket(request.local_socket) if request.local_socket else listen_port(request.local_port))
    forward = Forward(ctx, endpoint.config, (request.remote_host, int(request.remote_port or 0)), place)
    forwards.start(ctx, forward)
    where = f"{place.local} -> {forward.target} of {endpoint.config.address}"
    if ctx.wait_s is None:
        await ctx.progress("forward", f"{where}; interrupt to close it", local=place.local, url=place.url)
        try:
            await forward.ended.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await forward.close()
    hint = f"Close it with action=close, forward_id={forward.forward_id}."
    return ForwardResult(forwards=[forward.row()], status="listening", summary=where, hint=hint)

"""From a request to a connected endpoint: what it names, else the endpoint of its task."""

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.models import EndpointConfig, EndpointRequest
from vaws_mcp.endpoint.policy import check_command, check_effect
from vaws_mcp.endpoint.resolve import resolve
from vaws_mcp.taskstore.tasks import find_task


async def reach(ctx: Context, request: EndpointRequest, *, command: str | None = None) -> Endpoint:
    """Return the connected endpoint of a request. A ``command`` that is to run there is held against its policy first.

    Raises: Failure of resolving or connecting, with its layer. Blocked ``read_only`` or ``command_denied``.
    """
    config = endpoint_of(ctx, request)
    if command is not None:
        check_command(config, command)
    return await connected(ctx, config)


def endpoint_of(ctx: Context, request: EndpointRequest) -> EndpointConfig:
    """Return what is known about the endpoint of a request, without contacting it.

    Raises: Failure of resolving.
    """
    task = find_task(request.context_file)
    return resolve(ctx.state_dir, request, task.context.endpoint if task else None)


def check_allowed(ctx: Context, request: object) -> None:
    """Refuse early, before a run is started for it, what the endpoint of a request would refuse.

    Raises: Blocked ``read_only``.
    """
    if not isinstance(request, EndpointRequest):
        return
    try:
        config = endpoint_of(ctx, request)
    except Failure:
        return  # the operation itself says what is missing
    check_effect(config, ctx.effect)

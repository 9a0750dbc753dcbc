"""From a request to a connected endpoint: what it names, else the endpoint of its task."""

from vaws_mcp.core.context import Context
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.models import EndpointRequest
from vaws_mcp.endpoint.resolve import resolve
from vaws_mcp.taskstore.tasks import find_task


async def reach(ctx: Context, request: EndpointRequest) -> Endpoint:
    """Return the connected endpoint of a request.

    Raises: Failure of resolving or connecting, with its layer.
    """
    task = find_task(request.context_file)
    return await connected(ctx, resolve(ctx.state_dir, request, task.context.endpoint if task else None))

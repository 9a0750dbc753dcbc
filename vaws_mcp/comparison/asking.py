"""From a request to a comparison on an endpoint that has been looked at; the checks before that."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from vaws_mcp.bench.nightly import settings_of
from vaws_mcp.bench.operations import check_settings
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.comparison.from_execution import in_place_of
from vaws_mcp.comparison.models import LaunchesRequest
from vaws_mcp.core.context import Context
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.preflight import Surroundings, check_endpoint
from vaws_mcp.source.patching import read_patch
from vaws_mcp.source.refs import check_ref
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import Task

R = TypeVar("R", bound=LaunchesRequest)


@dataclass(frozen=True)
class Reached(Generic[R]):
    """An endpoint that has been looked at, and the request with its effective settings there."""

    endpoint: Endpoint
    request: R
    settings: BenchSettings
    found: Surroundings


def check_launches(request: LaunchesRequest, ctx: Context, operation: str) -> None:
    """Refuse what can be seen to be wrong in what every operation with launches takes.

    Raises: Refused.
    """
    request.require_whole(operation)
    check_settings(request, ctx)
    if request.remote_patch_file is not None:
        read_patch(request.remote_patch_file)
    if request.vllm_ref is not None:
        check_ref(request.vllm_ref)


async def reached(ctx: Context, task: Task, request: R) -> Reached[R]:
    """Connect to the endpoint of a request and look whether everything is there.

    Raises: Failure of the endpoint, of the settings, or of what is missing there.
    """
    if request.execution_id is not None:
        endpoint, request = await in_place_of(ctx, task, request)
    else:
        endpoint = await reach(ctx, request)
    settings = await settings_of(ctx, endpoint, request)
    return Reached(endpoint, request, settings, await check_endpoint(endpoint, settings.serve))

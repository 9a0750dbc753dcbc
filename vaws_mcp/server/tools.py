"""Tools: the catalogue's operations as MCP sees them."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mcp_types as types
import orjson
from mcp.server import ServerRequestContext

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.progress import ProgressEvent, ProgressSink
from vaws_mcp.core.sanitize import one_line

if TYPE_CHECKING:
    from vaws_mcp.core.operation import Operation

DEFAULT_WAIT_S = 45.0


@dataclass(frozen=True)
class Serving:
    """What all calls of one server share."""

    state_dir: Path
    resources: Resources


Call = ServerRequestContext[Serving, Any]


@functools.cache
def _tools() -> list[types.Tool]:
    """Describe all operations. Done at the first ``tools/list``, so that ``initialize`` does not pay for it."""
    from vaws_mcp.catalog import OPERATIONS
    from vaws_mcp.core.schema import plain_schema

    return [
        types.Tool(
            name=operation.name,
            title=operation.title,
            description=operation.description,
            input_schema=plain_schema(operation.request),
            annotations=_annotations(operation),
        )
        for operation in OPERATIONS
    ]


def _annotations(operation: "Operation") -> types.ToolAnnotations:
    return types.ToolAnnotations(
        title=operation.title,
        read_only_hint=operation.effect == "read",
        destructive_hint=operation.effect == "destroy",
        idempotent_hint=operation.idempotent or operation.effect == "read",
        open_world_hint=False,
    )


async def list_tools(_call: Call, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    """Answer ``tools/list``."""
    return types.ListToolsResult(tools=_tools())


async def call_tool(call: Call, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Answer ``tools/call`` with the operation's answer, as text and as structured content."""
    from vaws_mcp.catalog import BY_NAME
    from vaws_mcp.dispatch.invoke import invoke

    operation = BY_NAME.get(params.name)
    if operation is None:
        return _unknown_tool(params.name, list(BY_NAME))
    serving = call.lifespan_context
    ctx = Context(serving.state_dir, serving.resources, sink=_notifier(call), wait_s=DEFAULT_WAIT_S)
    return _result(await invoke(operation, dict(params.arguments or {}), ctx))


def _result(answer: dict[str, Any]) -> types.CallToolResult:
    text = orjson.dumps(answer).decode()
    failed = answer["outcome"] != "success"
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=answer, is_error=failed
    )


def _unknown_tool(name: str, known: list[str]) -> types.CallToolResult:
    from difflib import get_close_matches

    from vaws_mcp.core.envelope import Stopwatch, failed
    from vaws_mcp.core.failures import Refused

    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}?" if near else "tools/list names the tools."
    return _result(failed("call", Refused("tool_unknown", f"there is no tool {name!r}", hint=hint), Stopwatch(), None))


def _notifier(call: Call) -> ProgressSink:
    """Send progress as notifications when the client asked for them. The number always increases, as MCP demands."""
    last = 0.0

    async def notify(event: ProgressEvent) -> None:
        nonlocal last
        last = event.progress if event.progress is not None and event.progress > last else last + 0.001
        await call.session.report_progress(last, event.total, one_line(f"{event.phase}: {event.message}", 500))

    return notify

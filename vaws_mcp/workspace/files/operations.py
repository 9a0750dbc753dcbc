"""remote_read, remote_write."""

from vaws_mcp.core.context import Context
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.workspace.files.models import ReadRequest, ReadResult, WriteRequest, WriteResult
from vaws_mcp.workspace.ledger import guarded, remember

FILE_ALIASES = (("path", "file_path"), ("filename", "file_path"))


@operation(
    "remote_read",
    title="Read a file",
    effect="read",
    idempotent=True,
    positionals=("file_path",),
    aliases=FILE_ALIASES,
)
async def remote_read(request: ReadRequest, ctx: Context) -> ReadResult:
    """Read lines of a text file on the endpoint. A negative offset counts from the end. Binary files are refused.

    What was left out is said: `next_offset` is where to go on.
    """
    endpoint = await reach(ctx, request)
    answer = await endpoint.call(
        "read",
        {
            "path": request.file_path,
            "offset": request.offset,
            "limit": request.limit,
            "max_bytes": request.max_bytes,
            **policy_params(endpoint.config),
        },
    )
    found = answer.result
    await remember(ctx, endpoint, found["path"], found["sha256"], requested=request.file_path)
    text = answer.body.decode("utf-8", "replace")
    result = ReadResult(
        path=found["path"],
        content=text,
        first_line=found["first_line"],
        lines=found["lines"],
        total_lines=found["total_lines"],
        next_offset=found["next_offset"],
        truncated_lines=found["truncated_lines"],
        size=found["size"],
        sha256=found["sha256"],
        mtime=found["mtime_ns"] / 1e9,
        replaced_bytes="�" in text and "�".encode() not in answer.body,
        summary=f"{found['lines']} of {found['total_lines'] if found['total_lines'] is not None else '?'} lines",
    )
    if result.next_offset is not None:
        result.hint = f"Call remote_read with offset={result.next_offset} for more."
    elif not found["eof"]:
        result.hint = "More lines follow: raise limit or max_bytes, or begin nearer to the end."
    return result


@operation(
    "remote_write",
    title="Write a file",
    effect="write",
    idempotent=True,
    positionals=("file_path",),
    aliases=(*FILE_ALIASES, ("text", "content"), ("contents", "content")),
)
async def remote_write(request: WriteRequest, ctx: Context) -> WriteResult:
    """Replace a file on the endpoint, or create it, atomically. An existing file keeps its mode and owner.

    A file that has changed since this session read it is refused (`stale_read`); one that was not read is replaced.
    """
    endpoint = await reach(ctx, request)
    async with guarded(ctx, endpoint, request.file_path, request.expected_sha256) as expected_sha256:
        answer = await endpoint.call(
            "write",
            {
                "path": request.file_path,
                "mode": int(request.mode, 8) if request.mode else None,
                "create_dirs": request.create_dirs,
                "expected_sha256": expected_sha256,
                **policy_params(endpoint.config),
            },
            body=request.content.encode("utf-8", "surrogateescape"),
            retry_safe=True,
        )
        found = answer.result
        await remember(ctx, endpoint, found["path"], found["sha256"], requested=request.file_path)
    return WriteResult(
        path=found["path"],
        bytes=found["bytes"],
        sha256=found["sha256"],
        created=found["created"],
        previous_sha256=found.get("previous_sha256"),
        summary=f"{'created' if found['created'] else 'replaced'} {found['path']} ({found['bytes']} bytes)",
    )

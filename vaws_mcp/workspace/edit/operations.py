"""remote_edit, remote_multi_edit, remote_apply_patch."""

from collections.abc import Sequence
from typing import Any

from vaws_mcp.core.context import Context
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.workspace.edit.models import (
    EditRequest,
    EditResult,
    EditStep,
    MultiEditRequest,
    PatchedFile,
    PatchRequest,
    PatchResult,
)
from vaws_mcp.workspace.ledger import guarded, remember

FILE_ALIASES = (("path", "file_path"), ("filename", "file_path"))
TEXT_ALIASES = (("old_str", "old_string"), ("new_str", "new_string"), ("old_text", "old_string"))


@operation(
    "remote_edit",
    title="Edit a file",
    effect="write",
    positionals=("file_path",),
    aliases=(*FILE_ALIASES, *TEXT_ALIASES, ("new_text", "new_string")),
)
async def remote_edit(request: EditRequest, ctx: Context) -> EditResult:
    """Replace exact text in a file on the endpoint, atomically; every byte outside of it, mode and owner are kept.

    `old_string` must be in the file exactly once, unless `replace_all` is set. A file that changed since it was last
    read here is refused; one that was never read may be edited. An empty `old_string` creates a file.
    """
    step = EditStep(old_string=request.old_string, new_string=request.new_string, replace_all=request.replace_all)
    return await _edit(request, [step], ctx)


@operation(
    "remote_multi_edit",
    title="Edit a file in several places",
    effect="write",
    positionals=("file_path",),
    aliases=FILE_ALIASES,
)
async def remote_multi_edit(request: MultiEditRequest, ctx: Context) -> EditResult:
    """Make several edits of one file on the endpoint, in order and all or nothing; later ones see earlier ones.

    Each edit follows the rules of remote_edit.
    """
    return await _edit(request, request.edits, ctx)


async def _edit(request: EditRequest | MultiEditRequest, steps: Sequence[EditStep], ctx: Context) -> EditResult:
    endpoint = await reach(ctx, request)
    pieces: list[bytes] = []
    edits: list[dict[str, Any]] = []
    for step in steps:
        old, new = (text.encode("utf-8", "surrogateescape") for text in (step.old_string, step.new_string))
        pieces += [old, new]
        edits.append({"old": len(old), "new": len(new), "replace_all": step.replace_all})
    async with guarded(ctx, endpoint, request.file_path, request.expected_sha256) as expected:
        answer = await endpoint.call(
            "edit",
            {
                "path": request.file_path,
                "escaped": request.escaped,
                "edits": edits,
                "expected_sha256": expected,
                "dry_run": request.dry_run,
                **policy_params(endpoint.config),
            },
            body=b"".join(pieces),
            retry_safe=False,
        )
        found = answer.result
        if not request.dry_run:
            await remember(ctx, endpoint, found["path"], found["sha256"], requested=request.file_path)
    links = found.pop("other_links")
    if links and not request.dry_run and found["changed"]:
        ctx.warn(f"{found['path']} had {links} other hard links, which keep the old contents")
    result = EditResult.model_validate({**found, "dry_run": request.dry_run})
    result.summary = _edit_summary(result)
    return result


def _edit_summary(result: EditResult) -> str:
    verb = "created" if result.created else "edited" if result.changed else "left unchanged"
    count = sum(result.replacements)
    told = f"{'would have been ' if result.dry_run else ''}{verb}: {count} replacement{'s' if count != 1 else ''}"
    place = f", first at line {result.first_changed_line}" if result.first_changed_line else ""
    return f"{result.path} {told}{place}"


@operation(
    "remote_apply_patch",
    title="Apply a patch",
    effect="write",
    positionals=("patch",),
    aliases=(("input", "patch"), ("diff", "patch"), ("workdir", "cwd"), ("working_directory", "cwd")),
)
async def remote_apply_patch(request: PatchRequest, ctx: Context) -> PatchResult:
    """Apply a patch to files on the endpoint: to all of them, or to none when any part does not match.

    Takes unified diffs (plain or git: add, delete, rename, copy, mode) and the form `*** Begin Patch` with Add File,
    Delete File, Update File and Move to. Lines must match exactly, at the stated line or at the only other place.
    Later parts see files that earlier ones made. A mismatch shows the expected and the found lines.
    """
    endpoint = await reach(ctx, request)
    answer = await endpoint.call(
        "patch",
        {
            "cwd": request.cwd or endpoint.config.workdir,
            "dry_run": request.dry_run,
            **policy_params(endpoint.config),
        },
        body=request.patch.encode(),
        retry_safe=False,
    )
    found = answer.result
    files = [PatchedFile.model_validate(file) for file in found["files"]]
    if not request.dry_run:
        for file in files:
            if file.action == "move" and file.source is not None:
                await remember(ctx, endpoint, file.source, None)
            await remember(ctx, endpoint, file.path, file.sha256)
    result = PatchResult(cwd=found["cwd"], files=files, dry_run=request.dry_run)
    result.summary = _patch_summary(result)
    return result


def _patch_summary(result: PatchResult) -> str:
    counts: dict[str, int] = {}
    for file in result.files:
        counts[file.action] = counts.get(file.action, 0) + 1
    told = ", ".join(f"{count} {action}" for action, count in counts.items())
    return f"{'the patch applies' if result.dry_run else 'patch applied'} in {result.cwd}: {told}"

"""artifact_manifest, artifact_push, artifact_pull."""

import json
import time
from dataclasses import replace
from typing import Any

from vaws_mcp.core.context import Context
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.workspace.artifacts.models import (
    Kind,
    ManifestEntry,
    ManifestRequest,
    ManifestResult,
    PullRequest,
    PushRequest,
    TransferResult,
)
from vaws_mcp.workspace.artifacts.names import shown_names
from vaws_mcp.workspace.artifacts.transfers import Transfer, begin, elapsed_s

LOCAL_ALIASES = (("src", "local_path"), ("source", "local_path"), ("dest", "remote_path"), ("target", "remote_path"))
REMOTE_ALIASES = tuple((alias, {"local_path": "remote_path"}.get(name, "local_path")) for alias, name in LOCAL_ALIASES)
HASH_LIMIT_S = 3600.0
_KINDS: dict[str, Kind] = {"f": "file", "d": "folder", "l": "link"}


@operation(
    "artifact_manifest",
    title="List files with sizes and hashes",
    effect="read",
    idempotent=True,
    timeout_s=None,
    positionals=("path",),
    aliases=(("remote_path", "path"), ("file_path", "path")),
)
async def artifact_manifest(request: ManifestRequest, ctx: Context) -> ManifestResult:
    """List a file or directory tree on the endpoint: sizes, SHA-256, modes, modification times, links.

    Also names what `artifact_pull` would refuse: devices, unreadable files, and links that lead outside of the tree.
    """
    endpoint = await reach(ctx, request)
    asked = {"path": request.path, "checksum": request.checksum, "offset": request.offset, "limit": request.limit}
    answer = await endpoint.call(
        "artifact_manifest", {**asked, **policy_params(endpoint.config)}, deadline_s=HASH_LIMIT_S
    )
    found = answer.result
    entries = [_entry(row) for row in json.loads(answer.body)]
    unmovable = {key: list(shown_names(*found[key])[0]) for key in ("special", "unreadable", "unsafe_links")}
    result = ManifestResult(
        path=shown_names(found["path"])[0][0],
        entries=entries,
        total_entries=found["entries"],
        files=found["files"],
        folders=found["folders"],
        links=found["links"],
        total_bytes=found["total_bytes"],
        next_offset=found["next_offset"],
        unmovable={key: names for key, names in unmovable.items() if names},
        summary=f"{found['files']} files, {found['total_bytes']} bytes; {len(entries)} entries shown",
    )
    if result.next_offset is not None:
        result.hint = f"Call artifact_manifest with offset={result.next_offset} for more."
    return result


def _entry(row: list[Any]) -> ManifestEntry:
    rel, kind, mode, size, mtime_ns, link, sha256 = row
    (path, target), escaped = shown_names(rel, link)
    return ManifestEntry(
        path=path,
        kind=_KINDS[kind],
        mode=f"{mode:04o}",
        size=size,
        mtime_ns=mtime_ns,
        target=target if kind == "l" else None,
        sha256=sha256,
        escaped=escaped,
    )


@operation(
    "artifact_push",
    title="Send files to the endpoint",
    effect="write",
    idempotent=True,
    timeout_s=None,
    positionals=("local_path", "remote_path"),
    aliases=LOCAL_ALIASES,
)
async def artifact_push(request: PushRequest, ctx: Context) -> TransferResult:
    """Send a file or a directory tree from this machine to the endpoint, verified by SHA-256 at both ends.

    Files that are the same already are skipped. Every file is replaced in one step, a new tree appears whole. After a
    cut the same call goes on where it was. Modes, times and symbolic links inside the tree are kept; links that lead
    outside of it are refused. A long transfer answers `running`: call again with the same arguments.
    """
    return await _transfer(request, ctx)


@operation(
    "artifact_pull",
    title="Fetch files from the endpoint",
    effect="write",
    idempotent=True,
    timeout_s=None,
    positionals=("remote_path", "local_path"),
    aliases=REMOTE_ALIASES,
)
async def artifact_pull(request: PullRequest, ctx: Context) -> TransferResult:
    """Fetch a file or a directory tree from the endpoint to this machine, verified by SHA-256 at both ends.

    Files that are the same already are skipped. Every file is replaced in one step, a new tree appears whole. After a
    cut the same call goes on where it was. Modes, times and symbolic links inside the tree are kept; links that lead
    outside of it are refused. A long transfer answers `running`: call again with the same arguments.
    """
    # It writes on this machine, which is noted; an endpoint that may only be read from allows it.
    return await _transfer(request, replace(ctx, effect="read"))


async def _transfer(request: PushRequest | PullRequest, ctx: Context) -> TransferResult:
    begun = time.perf_counter()
    endpoint = await reach(ctx, request)
    transfer = await begin(ctx, endpoint.config, request)
    await transfer.wait(ctx, ctx.wait_s if request.wait_s is None else request.wait_s)
    if transfer.facts is None:
        return _running(transfer)
    result = _result(transfer, transfer.facts)
    rate = (result.sent_bytes or 0) / 1e6 / elapsed_s(begun)
    verb = "would send" if request.dry_run else "sent"
    speed = "" if request.dry_run else f" ({rate:.0f} MB/s)"
    result.summary = (
        f"{verb} {result.sent_files} of {result.files} files, {result.sent_bytes} bytes{speed}; "
        f"{result.unchanged} unchanged, {len(result.deleted)} deleted"
    )
    if result.changed:
        ctx.warn(f"written by somebody while being read, so perhaps a mixture: {', '.join(result.changed[:10])}")
    return result


def _running(transfer: Transfer) -> TransferResult:
    watch = transfer.watch
    return TransferResult(
        status="running",
        local_path=transfer.local_path,
        remote_path=transfer.request.remote_path,
        sent_bytes=watch.moved,
        summary=f"{watch.moved} of {watch.total if watch.total is not None else '?'} bytes so far",
        hint="It goes on in the background. Call again with the same arguments to wait for it.",
    )


def _result(transfer: Transfer, facts: dict[str, Any]) -> TransferResult:
    """Build the result; the path at the receiving end is the one that end found."""
    names = [facts.pop("path"), *facts.pop("deleted"), *facts["changed"]]
    gone = len(names) - len(facts.pop("changed")) - 1
    (path, *others), escaped = shown_names(*names)
    return TransferResult(
        local_path=transfer.local_path if transfer.pushes else path,
        remote_path=path if transfer.pushes else transfer.request.remote_path,
        deleted=others[:gone],
        changed=others[gone:],
        escaped=escaped,
        **facts,
    )

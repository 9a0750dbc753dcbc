"""A patch on top of a checked-out state: applied to files and index, and taken out again before the next."""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed, Failure, Refused
from vaws_mcp.core.files import write_atomic
from vaws_mcp.endpoint.connect import Endpoint, renewed
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.source.parity import as_blocked
from vaws_mcp.source.records import TreeRecord
from vaws_mcp.store.records import load, save

PATCH_S = 120.0
FILE = "remote.patch"
NOT_APPLIED = frozenset({"patch_mismatch", "patch_malformed", "tree_locked"})


@dataclass(frozen=True)
class Patch:
    """A patch and its identity."""

    content: bytes

    @property
    def sha256(self) -> str:
        """What results call it."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class Applied:
    """A patch on a tree: the tree's hash with it, and the files it touches."""

    sha256: str
    tree: str
    files: tuple[str, ...]


def read_patch(path: str) -> Patch:
    """Return the patch in a local file.

    Raises: Refused ``patch_unreadable`` or ``patch_empty``.
    """
    try:
        content = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise Refused("patch_unreadable", f"cannot read the patch {path}: {error.strerror}") from None
    if not content.strip():
        raise Refused("patch_empty", f"{path} is empty", hint="Write it with git diff --binary.")
    return Patch(content)


async def apply_patch(
    endpoint: Endpoint, repo: str, patch: Patch, *, who: str, reverse: bool = False, reservation: str | None = None
) -> Applied:
    """Apply a patch to a tree of the endpoint, or with ``reverse`` take it out: all of it or nothing.

    Raises: Failure ``patch_mismatch`` that names file and hunk, ``patch_malformed``; Blocked ``tree_locked``.
    """
    about = {"repo": repo, "who": who, "reservation": reservation, "reverse": reverse}
    params = {**about, **policy_params(endpoint.config)}
    try:
        answer = await endpoint.call("tree.patch", params, body=patch.content, deadline_s=PATCH_S, retry_safe=False)
    except Failure as failure:
        raise as_blocked(failure) from None
    return Applied(patch.sha256, answer.result["tree"], tuple(answer.result["files"]))


@asynccontextmanager
async def patched(ctx: Context, endpoint: Endpoint, patch: Patch | None, path: Path) -> AsyncGenerator[Applied | None]:
    """Have a patch applied while the block runs. The tree's record at ``path`` says so before anything changes.

    Raises: as ``apply_patch``; CleanupFailed ``patch_not_reversed``.
    """
    if patch is None:
        yield None
        return
    record = load(path, TreeRecord)
    write_atomic(path.with_name(FILE), patch.content)
    save(path, record.model_copy(update={"patch_file": FILE}))
    applied: Applied | None = None
    try:
        with anyio.CancelScope(shield=True):
            applied = await apply_patch(endpoint, record.repo, patch, who=record.who, reservation=record.reservation)
    except Failure as failure:
        if failure.code in NOT_APPLIED:  # else nobody knows, and restoring the tree looks for it
            save(path, record)
        raise
    try:
        yield applied
    finally:
        with anyio.CancelScope(shield=True):
            await _take_out(await renewed(ctx, endpoint), record, patch)
            save(path, record)


async def _take_out(endpoint: Endpoint, record: TreeRecord, patch: Patch) -> None:
    try:
        await apply_patch(endpoint, record.repo, patch, who=record.who, reverse=True, reservation=record.reservation)
    except Failure as failure:
        raise CleanupFailed(
            "patch_not_reversed",
            f"the patch could not be taken out of {record.repo} on {endpoint.config.address}: {failure.message}",
            layer="remote_env",
            hint=f"On the endpoint: git -C {record.repo} status",
            retry_safe=True,
            phase="restore",
        ) from None


async def take_out_left(endpoint: Endpoint, record: TreeRecord, path: Path, *, reservation: str | None) -> None:
    """Take the patch out that a killed run may have left in a tree; a clean tree has none.

    Raises: CleanupFailed ``patch_not_reversed``; Failure of the endpoint.
    """
    if record.patch_file is None:
        return
    params = {"repo": record.repo, **policy_params(endpoint.config)}
    state = (await endpoint.call("tree.state", params, deadline_s=PATCH_S)).result
    if state["changes"]["count"]:
        patch = Patch(path.with_name(record.patch_file).read_bytes())
        await _take_out(endpoint, record.model_copy(update={"reservation": reservation}), patch)

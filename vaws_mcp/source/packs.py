"""Objects on their way to an endpoint: small packs with the request, large ones over a channel of their own."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from vaws_mcp.core.context import Context
from vaws_mcp.endpoint.bulk import bulk_channel
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.source.local import Missing, here, write_pack
from vaws_mcp.store.ids import new_id
from vaws_mcp.worker.engine.artifacts.entries import bytes_of
from vaws_mcp.worker.engine.artifacts.flow import Watch, send_tree
from vaws_mcp.worker.engine.artifacts.link import Link
from vaws_mcp.worker.engine.tree.git import Git

SMALL_BYTES = 4 << 20
RECEIVE_S = 600.0


@dataclass(frozen=True)
class Target:
    """The repository that receives: a tree of the endpoint, or its submodule ``module`` called ``name``."""

    repo: str
    module: str = ""
    name: str = ""
    ref: str | None = None


async def deliver(ctx: Context, endpoint: Endpoint, target: Target, git: Git, lacking: Missing) -> int:
    """Send what a repository of the endpoint lacks, and return the size of the pack.

    Units: bytes.

    Raises: Failure of git on either side, or of the transfer.
    """
    with tempfile.TemporaryDirectory(prefix="vaws-pack-") as folder:
        path = Path(folder) / "objects.pack"
        size = await here(write_pack, git, lacking, path)
        await ctx.progress("send", f"sending {size / 1e6:.1f} MB to {target.repo} {target.module}".rstrip())
        remote = None if size <= SMALL_BYTES else await _upload(ctx, endpoint, path)
        params = {
            "repo": target.repo,
            "module": target.module,
            "name": target.name,
            "ref": target.ref,
            "commit": lacking.commit,
            "shallow": list(lacking.shallow),
            "pack": remote,
            **policy_params(endpoint.config),
        }
        body = path.read_bytes() if remote is None else b""
        await endpoint.call("tree.receive", params, body=body, deadline_s=RECEIVE_S)
        return size


async def _upload(ctx: Context, endpoint: Endpoint, path: Path) -> str:
    """Put a pack where the worker looks for it, and return its path there."""
    remote = f"{endpoint.hello['home']}/.vaws/packs/{new_id('pack')}.pack"
    wish = {"checksum": False, "delete": False, "dry_run": False}

    def push(link: Link) -> None:
        link.send({"call": "bulk", "params": {"direction": "push", "path": remote, "name": path.name, **wish}})
        send_tree(link, bytes_of(str(path)), Watch(), dry_run=False)
        link.expect("done")

    async with bulk_channel(ctx, endpoint.config) as channel:
        await channel.converse(push)
    return remote

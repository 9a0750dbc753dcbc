"""Uncommitted work of an endpoint's tree put aside for a run, and put back exactly afterwards."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.endpoint.policy import policy_params
from vaws_mcp.source.parity import as_blocked

STASH_S = 300.0


class SavedWork(BaseModel):
    """Work of one repository as the endpoint has saved it: the tree itself (``path`` is empty) or a submodule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    ref: str
    commit: str
    tree: str
    head: str
    branch: str | None
    index_blob: str
    stages: str


def stash_ref(run_id: str) -> str:
    """Return the ref that holds a run's stash in each repository of the tree."""
    return f"refs/vaws/stash/{run_id}"


async def save_work(
    endpoint: Endpoint, repo: str, ref: str, *, who: str, reservation: str | None = None
) -> list[SavedWork]:
    """Save tracked, staged and untracked work under ``ref``. No file changes; an empty list says that it is clean.

    Raises: Blocked ``tree_locked``; Failure of git.
    """
    answer = await _ask(endpoint, "tree.stash", repo, who, reservation, ref=ref)
    return [SavedWork.model_validate(one) for one in answer["saved"]]


async def clear_work(
    endpoint: Endpoint, repo: str, saved: list[SavedWork], *, who: str, reservation: str | None = None
) -> None:
    """Take saved work out of the way: the tree is clean at its commit then. When it fails nothing has changed.

    Raises: Blocked ``tree_locked``, ``tree_dirty``; Failure ``tree_moving`` or of git.
    """
    rows = [one.model_dump() for one in saved]
    await _ask(endpoint, "tree.clear", repo, who, reservation, saved=rows)


async def put_work_back(
    endpoint: Endpoint, repo: str, saved: list[SavedWork], *, who: str, reservation: str | None = None
) -> None:
    """Put saved work back; files, index and branch are checked on the endpoint to be as they were. It may be repeated.

    Raises: Blocked ``tree_dirty`` when there is other work now, ``tree_locked``; Failure ``restore_differs``.
    """
    rows = [one.model_dump() for one in saved]
    await _ask(endpoint, "tree.unstash", repo, who, reservation, saved=rows)


async def _ask(
    endpoint: Endpoint, method: str, repo: str, who: str, reservation: str | None, **params: Any
) -> dict[str, Any]:
    about = {"repo": repo, "who": who, "reservation": reservation, **policy_params(endpoint.config)}
    try:
        return (await endpoint.call(method, {**about, **params}, deadline_s=STASH_S)).result
    except Failure as failure:
        raise as_blocked(failure) from None

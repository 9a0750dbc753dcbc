"""code_sync."""

from pathlib import Path

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import NeedsInput
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.source.models import CodeSyncRequest, CodeSyncResult, TreeSync
from vaws_mcp.source.parity import Wish, plan_sync, sync_tree
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.taskstore.tasks import Task, require_task

SYNC_S = 1200.0


@operation("code_sync", title="Bring local code to the endpoint", effect="write", idempotent=True, timeout_s=SYNC_S)
async def code_sync(request: CodeSyncRequest, ctx: Context) -> CodeSyncResult:
    """Make the endpoint's source tree equal to the local tree bound to the task, as it stands on disk.

    Committed, staged, unstaged and untracked files travel, submodules included; ignored files and built outputs
    (such as *.so, build/, __pycache__) neither travel nor are touched on the endpoint. Uncommitted work there is never
     overwritten: the call is blocked and names it, or `keep_remote` moves it to a ref. Equal tree hashes are the
    proof. When inputs of the native build changed it says what must be rebuilt, and builds nothing.
    """
    if request.plan:
        ctx.effect = "read"
    task = require_task(ctx, request.context_file, "code_sync")
    sources = {name: bound_source(task, name) for name in _asked(request)}
    endpoint = await reach(ctx, request)
    trees: list[TreeSync] = []
    for name, source in sources.items():
        repo = repo_of(endpoint, name)
        if request.plan:
            trees.append(await plan_sync(ctx, endpoint, repo, source))
        else:
            trees.append(await sync_tree(ctx, endpoint, repo, source, Wish(task.task_id, keep=request.keep_remote)))
            ctx.partial["trees"] = [tree.model_dump(mode="json") for tree in trees]
    return _result(endpoint, trees)


def _asked(request: CodeSyncRequest) -> tuple[str, ...]:
    return ("vllm_ascend", "vllm") if request.repo == "both" else (request.repo,)


def repo_of(endpoint: Endpoint, name: str) -> str:
    """Return the path of the endpoint's tree of ``vllm_ascend`` or ``vllm``."""
    return endpoint.config.vllm_ascend_repo if name == "vllm_ascend" else endpoint.config.vllm_repo


def bound_source(task: Task, name: str) -> Path:
    """Return the local tree that a task has bound as ``vllm_ascend`` or ``vllm``.

    Raises: NeedsInput ``source_missing``.
    """
    sources = task.context.sources
    path = sources.vllm_ascend if name == "vllm_ascend" else sources.vllm
    if path is None:
        flag = "--" + name.replace("_", "-")
        raise NeedsInput(
            "source_missing",
            f"task {task.task_id} has no local tree of {name} bound",
            hint=f"Create a task with the tree: task_create with {name}=PATH (task-create {flag} PATH).",
        )
    return Path(path)


async def sync_bound(ctx: Context, task: Task, endpoint: Endpoint, *, reservation: str | None = None) -> list[TreeSync]:
    """Bring all local trees that a task has bound to an endpoint, before a service is started from them there.

    Raises: as ``sync_tree``.
    """
    trees: list[TreeSync] = []
    for name in ("vllm", "vllm_ascend"):
        path = getattr(task.context.sources, name)
        if path is not None:
            wish = Wish(task.task_id, reservation=reservation)
            trees.append(await sync_tree(ctx, endpoint, repo_of(endpoint, name), Path(path), wish))
            warn_native(ctx, trees[-1])
    return trees


def warn_native(ctx: Context, tree: TreeSync) -> None:
    """Warn when a tree has native inputs that were changed and not built since."""
    if tree.native_inputs_changed:
        ctx.warn(
            f"native inputs of {tree.repo} changed ({', '.join(tree.native_inputs[:3])}) and were not built since: "
            f"rebuild {', '.join(tree.rebuild)}"
        )


def _result(endpoint: Endpoint, trees: list[TreeSync]) -> CodeSyncResult:
    statuses = {tree.status for tree in trees}
    status = next(one for one in ("planned", "synced", "unchanged") if one in statuses)
    native = [tree for tree in trees if tree.native_inputs_changed]
    hint = None
    if native:
        what = ", ".join(dict.fromkeys(part for tree in native for part in tree.rebuild))
        hint = f"Rebuild {what} on the endpoint: runtime_prepare with rebuild=true shows the commands."
    return CodeSyncResult(
        status=status,
        summary="; ".join(_sentence(tree) for tree in trees) + f" ({endpoint.config.address})",
        hint=hint,
        endpoint=endpoint.config.address,
        trees=trees,
        equal=all(tree.equal for tree in trees),
        native_inputs_changed=bool(native),
    )


def _sentence(tree: TreeSync) -> str:
    if tree.status == "unchanged":
        return f"{tree.repo} is equal already, tree {tree.local_tree[:12]}"
    if tree.status == "planned":
        own = f"; its own changes stand in the way: {', '.join(tree.remote_changes[:5])}" if tree.remote_changes else ""
        return f"{tree.repo} would be made equal, tree {tree.local_tree[:12]}{own}"
    kept = f", its own work kept at {tree.kept[0].ref}" if tree.kept else ""
    return f"{tree.repo} is equal now, tree {tree.local_tree[:12]}, {tree.changed} files changed{kept}"


async def warn_old_code(ctx: Context, task: Task, endpoint: Endpoint) -> None:
    """Warn when a service that runs already cannot have the code that the task's local trees have now.

    Raises: Failure of git or of the endpoint.
    """
    for name in ("vllm", "vllm_ascend"):
        path = getattr(task.context.sources, name)
        if path is None:
            continue
        tree = await plan_sync(ctx, endpoint, repo_of(endpoint, name), Path(path))
        if not tree.equal:
            ctx.warn(
                f"the service runs the code of {tree.repo} ({tree.remote_tree[:12]}), which differs from {path} "
                f"({tree.local_tree[:12]}); serve_start with restart=true brings it there and starts anew"
            )

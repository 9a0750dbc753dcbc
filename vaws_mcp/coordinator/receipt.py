"""The facts of a launch: sources and commits on both sides, and the versions of the environment."""

import hashlib
from pathlib import Path
from typing import Any

import anyio
import orjson

from vaws_mcp.core.failures import Failure
from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.taskstore.tasks import Task

BOUND_S = 5.0


async def launch_receipt(task: Task, endpoint: Endpoint, env: dict[str, str | None]) -> dict[str, Any]:
    """Return what a launch's record says beside its spec. A fact that cannot be had in 5 s is ``{"error": why}``.

    Shapes: ``sources`` (local trees of the task, by name), ``endpoint`` (trees, packages, CANN, Python), ``user_env``.
    """
    found: dict[str, Any] = {"user_env": environment_digest(env)}
    bound = {name: path for name, path in task.context.sources.model_dump().items() if path}

    async def local() -> None:
        found["sources"] = {name: await _local_tree(path) for name, path in bound.items()}

    async def remote() -> None:
        found["endpoint"] = await _versions(endpoint)

    async with anyio.create_task_group() as group:
        group.start_soon(local)
        group.start_soon(remote)
    return found


def environment_digest(env: dict[str, str | None]) -> dict[str, Any]:
    """Return the names of the caller's variables and a digest of all; values may be secret and are not kept."""
    raw = orjson.dumps(sorted(env.items()))
    return {"names": sorted(env), "sha256": hashlib.sha256(raw).hexdigest()}


async def _versions(endpoint: Endpoint) -> dict[str, Any]:
    config = endpoint.config
    params: dict[str, Any] = {
        "env_spec": endpoint.env_spec(),
        "vllm_repo": config.vllm_repo,
        "vllm_ascend_repo": config.vllm_ascend_repo,
    }
    found: dict[str, Any] = {"error": f"no answer within {BOUND_S:.0f} s"}
    with anyio.move_on_after(BOUND_S):
        try:
            found = (await endpoint.call("context", params, deadline_s=BOUND_S)).result
        except Failure as failure:
            found = {"error": failure.message}
    return found


async def _local_tree(path: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": path}
    try:
        with anyio.fail_after(BOUND_S):
            facts["commit"] = await _git(path, "rev-parse", "HEAD")
            facts["dirty"] = bool(await _git(path, "status", "--porcelain", "--untracked-files=normal"))
    except (OSError, TimeoutError, UnicodeDecodeError) as error:
        facts["error"] = f"git cannot tell: {error or 'it did not end in time'}"
    return facts


async def _git(path: str, *words: str) -> str:
    argv = ["git", "-C", path, "-c", "core.fsmonitor=false", *words]
    done = await anyio.run_process(argv, check=False, cwd=Path(path))
    if done.returncode != 0:
        raise OSError(one_line(done.stderr.decode("utf-8", "replace")) or f"exit code {done.returncode}")
    return done.stdout.decode("utf-8", "replace").strip()

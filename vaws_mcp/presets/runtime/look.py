"""Asking an endpoint for everything that a comparison or a plan needs. Nothing is changed there."""

from typing import Any

from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.presets.runtime.compare import split_version
from vaws_mcp.presets.runtime.plan import PATTERNS, Surroundings, VllmTree, is_empty_build
from vaws_mcp.presets.runtimes import RuntimeProfile
from vaws_mcp.source.git import git

Facts = dict[str, Any]

LOOK_S = 150.0  # sourcing vendor scripts for the first time can take this long


async def versions_of(endpoint: Endpoint, *, refresh: bool = False) -> Facts:
    """Return the worker's ``context``: versions of everything that a service there would run with."""
    config = endpoint.config
    params = {
        "env_spec": endpoint.env_spec(refresh=refresh),
        "vllm_repo": config.vllm_repo,
        "vllm_ascend_repo": config.vllm_ascend_repo,
    }
    return (await endpoint.call("context", params, deadline_s=LOOK_S)).result


def flat(versions: Facts) -> dict[str, str | None]:
    """Return all versions by one name each, and the commits of the trees."""
    found: dict[str, str | None] = {"python": _version(versions["python"])}
    for name, value in versions["cann"].items():
        found[name if name == "driver" else f"cann {name}"] = _version(value)
    for name, value in versions["packages"].items():
        found[name] = _version(value)
    for name, value in versions["repos"].items():
        found[f"{name} commit"] = (value or {}).get("commit")
    return found


def _version(value: Facts | None) -> str | None:
    return (value or {}).get("version")


async def surroundings(endpoint: Endpoint, profile: RuntimeProfile, versions: Facts) -> Surroundings:
    """Return what a plan needs to know besides the versions."""
    python = (versions["python"] or {}).get("executable")
    return Surroundings(
        python=python,
        wheel_dir=f"{endpoint.hello['home']}/.vaws/wheels",
        tree=await inspected(endpoint) if profile.vllm_ascend else None,
        vllm_tree=await _vllm_tree(endpoint, profile, versions),
    )


async def inspected(endpoint: Endpoint) -> Facts | str:
    """Return the worker's view of the tree of vllm-ascend and its build artifacts, or why the tree is refused."""
    params = {"repo": endpoint.config.vllm_ascend_repo, "patterns": list(PATTERNS)}
    try:
        return (await endpoint.call("build.inspect", params)).result
    except Failure as failure:
        if failure.code != "repo_refused":
            raise
        return failure.message


async def user_of(endpoint: Endpoint, path: str) -> str | None:
    """Return who holds a source tree, such as a service that runs from it, or None."""
    state = (await endpoint.call("tree.lock_state", {"path": path})).result
    if not state["locked"]:
        return None
    names = [str(holder.get("execution_id") or holder.get("who")) for holder in state["holders"]]
    return ", ".join(names) or "a process that left no name"


async def _vllm_tree(endpoint: Endpoint, profile: RuntimeProfile, versions: Facts) -> VllmTree | None:
    """Look where the tree of vLLM stands, when the profile's vLLM is built from one."""
    version = profile.packages.get("vllm")
    if version is None or not is_empty_build(version):
        return None
    path, tag = endpoint.config.vllm_repo, f"v{split_version(version)[0]}"
    commit = (versions["repos"]["vllm"] or {}).get("commit")
    tag_commit = None
    if commit is not None:
        answer = await git(endpoint, path, "rev-parse", "--verify", "--quiet", f"refs/tags/{tag}^{{commit}}")
        tag_commit = answer.text if answer.code == 0 else None
    return VllmTree(path, commit, tag, tag_commit)

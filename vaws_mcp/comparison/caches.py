"""What vLLM may remember from one launch to the next, and forgetting it where vLLM offers that."""

from typing import Any

from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.settings import ServeSettings
from vaws_mcp.serving.target import Target, http

LOOK_S = 30.0
# Where vLLM keeps compiled graphs. Everything that varies comes from the environment.
_SCRIPT = """d="${VLLM_CACHE_ROOT:-${XDG_CACHE_HOME:-$HOME/.cache}/vllm}/torch_compile_cache"
printf '%s\\n' "$d"
ls -1A "$d" 2>/dev/null | wc -l"""


async def compile_cache(endpoint: Endpoint, settings: ServeSettings) -> dict[str, Any]:
    """Return {path, entries, disabled} of the cache of compiled graphs as a launch finds it; null is unknown.

    It outlives a service, so a state that compiles what another has compiled before starts faster.
    """
    disabled = settings.env.get("VLLM_DISABLE_COMPILE_CACHE", "0") not in ("", "0")
    params: dict[str, Any] = {"argv": ["/bin/sh", "-c", _SCRIPT], "env": settings.env, "env_spec": endpoint.env_spec()}
    params |= {"cwd": endpoint.config.workdir, "timeout_s": LOOK_S, "max_output_bytes": 8192}
    try:
        answer = await endpoint.call("run", params, deadline_s=LOOK_S + 10)
    except Failure as failure:
        if failure.layer == "transport":
            raise
        return {"path": None, "entries": None, "disabled": disabled}
    lines = answer.body.decode("utf-8", "replace").split("\n")
    known = answer.result["exit_code"] == 0 and len(lines) > 1 and lines[1].strip().isdecimal()
    return {
        "path": lines[0] if known else None,
        "entries": int(lines[1]) if known else None,
        "disabled": disabled,
    }


async def reset_prefix_cache(endpoint: Endpoint, target: Target) -> str:
    """Ask a service to forget the prompts it has seen; return how that went. A new service remembers none."""
    try:
        answer = await http(endpoint, target, "/reset_prefix_cache", b"{}")
    except Failure as failure:
        if failure.layer == "transport":
            raise
        return f"failed: {failure.message}"
    if answer["status"] == 200:
        return "reset"
    return "not offered" if answer["status"] in (404, 405) else f"failed: status {answer['status'] or answer['error']}"

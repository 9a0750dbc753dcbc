"""What must be true on the endpoint before a server is started."""

from dataclasses import dataclass
from typing import Any

from vaws_mcp.core.failures import Blocked, Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.settings import ServeSettings

_NO_VLLM, _NO_MODEL = 90, 91
# The paths are arguments of the script, never part of its text.
_SCRIPT = f"""command -v vllm >/dev/null || exit {_NO_VLLM}
[ -z "$1" ] || [ -e "$1" ] || exit {_NO_MODEL}
[ -w "$2/.git" ] && echo vllm_ascend
[ -w "$3/.git" ] && echo vllm
PATH=$PATH:/usr/local/bin:/usr/local/sbin:/usr/local/Ascend/driver/tools
if command -v npu-smi >/dev/null || [ -e /dev/davinci_manager ]; then echo npu; fi"""


@dataclass(frozen=True)
class Surroundings:
    """What an endpoint has: NPUs, as far as their tool or device files are there, and git trees that can be locked."""

    npus: bool
    trees: tuple[str, ...]


async def check_endpoint(endpoint: Endpoint, settings: ServeSettings) -> Surroundings:
    """Look whether vLLM and the model are there, and what else is. A model that is no path is left to vLLM.

    Raises: Failure ``vllm_missing`` or ``model_missing`` (layer remote_env); nothing was started.
    """
    path = settings.model if settings.model.startswith(("/", "./", "../", "~")) else ""
    repos = {"vllm_ascend": endpoint.config.vllm_ascend_repo, "vllm": endpoint.config.vllm_repo}
    argv = ["/bin/sh", "-c", _SCRIPT, "preflight", path, *repos.values()]
    params: dict[str, Any] = {"argv": argv, "env": settings.env, "env_spec": endpoint.env_spec(), "timeout_s": 30.0}
    params["cwd"] = endpoint.config.workdir
    answer = await endpoint.call("run", params, deadline_s=60.0)
    code = answer.result["exit_code"]
    if code == _NO_VLLM:
        raise Failure(
            "vllm_missing",
            f"there is no vllm command on {endpoint.config.address}",
            layer="remote_env",
            hint="Set venv or env_files for this endpoint in endpoints.toml, so that `vllm` is on PATH.",
            retry_safe=True,
            phase="preflight",
        )
    if code == _NO_MODEL:
        raise Failure(
            "model_missing",
            f"the model path {settings.model} does not exist on {endpoint.config.address}",
            layer="remote_env",
            hint="Correct model; `remote-dev bash 'ls -d ...'` shows what is there.",
            retry_safe=True,
            phase="preflight",
        )
    said = answer.body.decode("utf-8", "replace").split()
    return Surroundings("npu" in said, tuple(path for name, path in repos.items() if name in said))


async def choose_port(endpoint: Endpoint, wanted: int | None) -> int:
    """Return the wanted port, or a free one.

    Raises: Blocked ``port_taken`` that names the owner.
    """
    if wanted is None:
        answer = await endpoint.call("free_port")
        return int(answer.result["port"])
    answer = await endpoint.call("ports", {"ports": [wanted]})
    found = answer.result["ports"][str(wanted)]
    if found["listening"] or found["bindable"] is False:
        owners = ", ".join(f"pid {pid}" for pid in found["pids"]) or "a process that is not visible"
        raise Blocked(
            "port_taken",
            f"port {wanted} on {endpoint.config.address} is in use by {owners}",
            layer="remote_env",
            hint="Choose another port, leave port out to get a free one, or stop the other service.",
            retry_safe=True,
            phase="preflight",
        )
    return wanted

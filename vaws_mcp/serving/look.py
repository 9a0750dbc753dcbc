"""One look at a service: what of readiness holds now."""

from dataclasses import dataclass, field
from typing import Any

from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.target import Target, first_token, http, require_own_port, served_models

ENGINE_TITLES = "VLLM::"
KEY_WANTED = (401, 403)


@dataclass
class Look:
    """What was seen. ``missing`` is the first condition that does not hold; None means that all hold.

    ``asked_token`` is False when nobody asked for one, or when the service wants a key that is not kept.
    """

    health: int | None = None
    models: list[str] = field(default_factory=list[str])
    token_s: float | None = None
    asked_token: bool = False
    missing: str | None = None


async def look_at(endpoint: Endpoint, status: dict[str, Any], target: Target, token_timeout_s: float) -> Look:
    """Go through the conditions of readiness, each with a bound, until one does not hold.

    Raises: Failure of the endpoint.
    """
    found = Look()
    health = await http(endpoint, target, "/health")
    found.health = health["status"]
    if found.health is None:
        found.missing = "/health does not answer in time" if health["error"] == "timeout" else "it does not listen"
        return found
    try:
        await require_own_port(endpoint, status, target.port)
    except Failure as failure:
        if failure.code != "port_foreign":
            raise
        found.missing = failure.message
        return found
    if found.health != 200:
        found.missing = f"/health answers {found.health}"
        return found
    code, found.models = await served_models(endpoint, target)
    if code in KEY_WANTED:
        return found
    if target.served_model_name not in found.models:
        found.missing = f"/v1/models does not list {target.served_model_name}"
        return found
    if token_timeout_s > 0:
        await _ask_token(endpoint, target, token_timeout_s, found)
    return found


async def _ask_token(endpoint: Endpoint, target: Target, timeout_s: float, found: Look) -> None:
    found.asked_token = True
    token = await first_token(endpoint, target, timeout_s)
    found.token_s, found.missing = token.seconds, token.why


def engine_processes(status: dict[str, Any]) -> int:
    """Return how many living processes of the service carry a title of vLLM's engines and workers."""
    family = status.get("family") or []
    own = [member for member in family if str(member.get("title", "")).startswith(ENGINE_TITLES)]
    return sum("APIServer" not in str(member["title"]) for member in own)

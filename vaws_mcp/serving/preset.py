"""A preset as the second source of what a service should be."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaws_mcp.coordinator.asked import VISIBLE_DEVICES
from vaws_mcp.presets.bench import find_preset
from vaws_mcp.serving.models import ServeStartRequest

_SAME = ("tp", "dp", "port", "served_model_name", "health_timeout", "serve_args")


@dataclass(frozen=True)
class Filled:
    """A request with what its preset adds, and where each setting came from: explicit, preset:NAME or default."""

    request: ServeStartRequest
    origin: dict[str, str]


def with_preset(request: ServeStartRequest, state_dir: Path) -> Filled:
    """Return the request with its preset's settings for what it does not give itself.

    ``serve_args`` are taken whole, environments are merged by variable, and of two wishes for devices the request's
    counts. What a preset says about the benchmark is not for a service.

    Raises: Refused of the preset.
    """
    said = request.model_fields_set
    names = (*_SAME, "devices")
    origin = {name: "explicit" if name in said else "default" for name in names}
    origin |= {f"env.{name}": "explicit" for name in request.extra_env}
    wishes = {"devices", "npu_count"} & said or request.extra_env.get(VISIBLE_DEVICES, "").strip()
    if wishes:
        origin["devices"] = "explicit"
    if request.preset is None:
        return Filled(request, origin)
    found = find_preset(request.preset, state_dir)
    given = found.load().given()
    added: dict[str, Any] = {name: given[name] for name in _SAME if name in given and name not in said}
    if "devices" in given and not wishes:
        added["devices"] = given["devices"]
    env = dict(given.get("env", {}))
    if wishes or "devices" in given:
        env.pop(VISIBLE_DEVICES, None)
    more = {name: value for name, value in env.items() if name not in request.extra_env}
    origin |= dict.fromkeys([*added, *(f"env.{name}" for name in more)], f"preset:{found.name}")
    explicit = {name: getattr(request, name) for name in said}
    filled = {**explicit, **added, "extra_env": {**request.extra_env, **more}}
    return Filled(ServeStartRequest.model_validate(filled), origin)

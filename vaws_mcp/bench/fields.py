"""Which of several sources a setting comes from: explicit argument, preset, nightly case, built-in default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaws_mcp.bench.models import BenchRequest
from vaws_mcp.coordinator.asked import VISIBLE_DEVICES
from vaws_mcp.presets.bench import BenchPreset, Found, find_preset
from vaws_mcp.store.statedir import find_state_dir

EXPLICIT, DEFAULT = "explicit", "default"
PLAIN = (
    *("tp", "dp", "port", "served_model_name", "health_timeout", "bench_timeout", "serve_args", "bench_args"),
    *("stall_timeout", "runs", "warmup_runs", "vllm_ref", "bench_request_counts"),
)
"""Settings that are called the same in requests, presets and here."""
FIXED = {
    "fixed_input_len": "input_len",
    "fixed_output_len": "output_len",
    "fixed_dataset_path": "path",
    "fixed_prompt": "prompt",
}


@dataclass(frozen=True)
class Layer:
    """What one source says: settings by name, and variables of the service and of the client."""

    origin: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    bench_env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Merged:
    """The effective settings, and the origin of each by name; of a variable as ``env.NAME``."""

    values: dict[str, Any]
    env: dict[str, str]
    bench_env: dict[str, str]
    origin: dict[str, str]


def merge(layers: Sequence[Layer]) -> Merged:
    """Return for each setting what the first source says that says anything. Environments are merged by variable."""
    merged = Merged({}, {}, {}, {})
    for layer in without_overruled_devices(layers):
        for name, value in layer.values.items():
            if name not in merged.values:
                merged.values[name] = value
                merged.origin[name] = layer.origin
        for kind, new, known in (("env", layer.env, merged.env), ("bench_env", layer.bench_env, merged.bench_env)):
            for name, value in new.items():
                if name not in known:
                    known[name] = value
                    merged.origin[f"{kind}.{name}"] = layer.origin
    return merged


def without_overruled_devices(layers: Sequence[Layer]) -> list[Layer]:
    """Keep the device request of the first source that has one; a device variable is one too."""
    kept: list[Layer] = []
    taken = False
    for layer in layers:
        values, env = layer.values, layer.env
        if taken:
            values = {name: value for name, value in values.items() if name != "devices"}
            env = {name: value for name, value in env.items() if name != VISIBLE_DEVICES}
        elif layer.env.get(VISIBLE_DEVICES, "").strip():
            values = {"devices": ((), None), **values}
        kept.append(Layer(layer.origin, values, env, layer.bench_env))
        taken = taken or "devices" in values
    return kept


def explicit_layer(request: BenchRequest) -> Layer:
    """Return what the caller said. Empty ``bench_args`` ask for the built-in ones."""
    said = request.model_fields_set
    values: dict[str, Any] = {name: getattr(request, name) for name in PLAIN if name in said}
    if not values.get("bench_args", True):
        values["bench_args"] = None
    if {"devices", "npu_count"} & said:
        values["devices"] = (request.devices, request.npu_count)
    values |= _fixed_parts(request, said)
    return Layer(EXPLICIT, values, request.extra_env, request.bench_env)


def _fixed_parts(request: BenchRequest, said: set[str]) -> dict[str, Any]:
    """Return the parts of a fixed request data set, each a setting of its own, so that one alone can be overridden."""
    parts = {f"fixed.{part}": getattr(request, name) for name, part in FIXED.items() if name in said}
    if "fixed_request_dataset" in said:
        parts["fixed"] = getattr(request, "fixed_request_dataset", False)
    elif parts:
        parts["fixed"] = True
    return parts


def preset_layer(found: Found, preset: BenchPreset) -> Layer:
    """Return what a preset says."""
    given = preset.given()
    values: dict[str, Any] = {name: given[name] for name in PLAIN if name in given}
    for name in ("serve_args", "bench_args", "bench_request_counts"):
        if name in values:
            values[name] = tuple(values[name])
    if "devices" in given:
        devices = given["devices"]
        words = devices.split(",") if isinstance(devices, str) else map(str, devices)
        values["devices"] = (tuple(word.strip() for word in words), None)
    if "fixed_request_dataset" in given:
        values["fixed"] = True
        values |= {f"fixed.{part}": value for part, value in given["fixed_request_dataset"].items()}
    return Layer(f"preset:{found.name}", values, given.get("env", {}), given.get("bench_env", {}))


def named_preset(request: BenchRequest, state_dir: Path | None) -> tuple[Found, Layer] | None:
    """Return the preset that a request names, or None. Without ``state_dir`` the usual one is looked into.

    Raises: Refused of the preset.
    """
    if request.preset is None:
        return None
    found = find_preset(request.preset, state_dir or find_state_dir())
    return found, preset_layer(found, found.load())


def default_layer(request: BenchRequest, bench_args: tuple[str, ...]) -> Layer:
    """Return the built-in defaults of an operation."""
    fields = type(request).model_fields
    values: dict[str, Any] = {name: fields[name].default for name in PLAIN if name in fields}
    values |= {"bench_args": bench_args, "devices": ((), None), "fixed": False}
    return Layer(DEFAULT, values)

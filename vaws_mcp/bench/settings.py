"""From a request to what is carried out."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vaws_mcp.bench.fields import DEFAULT, Layer, Merged, default_layer, explicit_layer, merge, named_preset
from vaws_mcp.bench.models import BenchRequest
from vaws_mcp.bench.nightly_models import NightlyChoice
from vaws_mcp.coordinator.asked import checked_environment
from vaws_mcp.coordinator.wanted import DeviceRequest
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.redact import redact
from vaws_mcp.serving.devices import NO_DEVICES, asked_devices, check_devices
from vaws_mcp.serving.settings import ServeSettings, default_served_name, flag_of

DEFAULT_BENCH_ARGS = (
    *("--dataset-name", "random", "--random-input-len", "256", "--random-output-len", "64"),
    *("--num-prompts", "32", "--max-concurrency", "8", "--ignore-eos"),
)
DEFAULT_FIXED_LEN = 512
OWNED_FLAGS = {
    "--host": "the service's own address",
    "--port": "port",
    "--base-url": "the service's own address",
    "--model": "model",
    "--served-model-name": "served_model_name",
    "--save-result": "always on",
    "--result-dir": "the run's directory",
    "--result-filename": "the run's directory",
    "--append-result": "one file an iteration",
}


@dataclass(frozen=True)
class FixedDataset:
    """Identical requests of an exact length in tokens; ``path`` is a data set that the endpoint has already."""

    input_len: int
    output_len: int
    path: str | None = None
    prompt: str | None = None


@dataclass(frozen=True)
class BenchSettings:
    """A service to start and the client to measure it with.

    ``devices`` None leaves the choice to the endpoint; ``no_devices`` wants none. ``request_counts``,
    ``fixed_dataset`` and ``vllm_ref`` are for comparisons. ``origin`` says where each setting came from.
    """

    serve: ServeSettings
    bench_args: tuple[str, ...]
    bench_env: dict[str, str] = field(default_factory=dict[str, str])
    runs: int = 1
    warmup_runs: int = 0
    timeout_s: float = 3600.0
    stall_timeout_s: float = 120.0
    devices: DeviceRequest | None = None
    no_devices: bool = False
    request_counts: tuple[int, ...] = ()
    fixed_dataset: FixedDataset | None = None
    vllm_ref: str | None = None
    preset: str | None = None
    nightly: dict[str, Any] | None = None
    origin: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(
        cls, request: BenchRequest, state_dir: Path | None = None, nightly: NightlyChoice | None = None
    ) -> "BenchSettings":
        """Return the settings of a request. ``nightly`` is what its refer_nightly was found to be, once it was read.

        Raises: Refused for arguments or files that contradict each other; nothing was contacted.
        """
        if request.nightly_root is not None and request.refer_nightly is None:
            raise Refused(
                "argument_invalid", "nightly_root says nothing without refer_nightly", hint="Name a configuration."
            )
        layers = [explicit_layer(request)]
        preset = named_preset(request, state_dir)
        if preset:
            layers.append(preset[1])
        if nightly:
            layers.append(nightly_layer(nightly))
        merged = merge([*layers, default_layer(request, DEFAULT_BENCH_ARGS)])
        if merged.values["bench_args"] is None:  # the caller asked for the built-in ones
            merged.values["bench_args"], merged.origin["bench_args"] = DEFAULT_BENCH_ARGS, DEFAULT
        serve = _serve_settings(request, merged)
        _check_bench_args(merged)
        ids, count = merged.values["devices"]
        devices = asked_devices(ids, count, serve.env)
        if nightly or request.refer_nightly is None:  # else the parallel sizes are not known yet
            check_devices(devices, serve)
        checked_environment(serve.env)
        checked_environment(merged.bench_env)
        return cls(
            serve=serve,
            bench_args=merged.values["bench_args"],
            bench_env=merged.bench_env,
            timeout_s=merged.values["bench_timeout"],
            stall_timeout_s=merged.values["stall_timeout"],
            devices=devices,
            no_devices=tuple(ids) == NO_DEVICES,
            request_counts=_distinct(merged.values.get("bench_request_counts") or ()),
            fixed_dataset=_fixed_dataset(merged),
            vllm_ref=merged.values.get("vllm_ref"),
            preset=preset[0].name if preset else None,
            nightly=nightly.as_json() if nightly else None,
            origin=_shown_origin(merged),
            **_counted_runs(merged),
        )

    def as_config(self) -> dict[str, Any]:
        """Return the settings for the result, secrets masked."""
        serve = self.serve
        devices: Any = self.devices.as_json() if self.devices else "none" if self.no_devices else None
        return redact(
            {
                "model": serve.model,
                "served_model_name": serve.served_model_name,
                "tp": serve.tp,
                "dp": serve.dp,
                "port": serve.port,
                "devices": devices,
                "serve_args": list(serve.serve_args),
                "bench_args": list(self.bench_args),
                "env": serve.env,
                "bench_env": self.bench_env,
                "runs": self.runs,
                "warmup_runs": self.warmup_runs,
                "health_timeout": serve.health_timeout_s,
            }
        )


def nightly_layer(chosen: NightlyChoice) -> Layer:
    """Return what a nightly case says. Its port is that of a machine which runs nothing else, so it counts too."""
    case, block = chosen.case, chosen.block
    fields = {"tp": case.tp, "dp": case.dp, "port": case.port, "served_model_name": case.served_model_name}
    values: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if case.serve_args:
        values["serve_args"] = tuple(case.serve_args)
    if block:
        values["bench_args"] = tuple(block.bench_args)
    return Layer(f"nightly:{chosen.name}", values, case.env)


def _serve_settings(request: BenchRequest, merged: Merged) -> ServeSettings:
    values = merged.values
    serve = ServeSettings(
        model=request.model,
        served_model_name=values["served_model_name"] or default_served_name(request.model),
        port=values["port"],
        tp=values["tp"],
        dp=values["dp"],
        serve_args=values["serve_args"],
        env=merged.env,
        health_timeout_s=values["health_timeout"],
    )
    try:
        serve.check()
    except Refused as refused:
        raise _from_source(refused, merged.origin["serve_args"]) from None
    return serve


def _from_source(refused: Refused, origin: str) -> Refused:
    """Say where arguments that are refused came from."""
    if ":" not in origin:
        return refused
    return Refused(refused.code, f"{refused.message} (they come from {origin})", hint=refused.hint)


def _check_bench_args(merged: Merged) -> None:
    for word in merged.values["bench_args"]:
        flag = flag_of(word)
        if flag in OWNED_FLAGS:
            refused = Refused(
                "bench_args_conflict",
                f"bench_args may not contain {flag}",
                hint=f"It is set by us: {OWNED_FLAGS[flag]}.",
            )
            raise _from_source(refused, merged.origin["bench_args"])


def _counted_runs(merged: Merged) -> dict[str, int]:
    """Return runs and warmup_runs, of which some must remain to be counted."""
    runs, warmups = merged.values["runs"], merged.values["warmup_runs"]
    if warmups >= runs:
        origins = [f"{name}: {merged.origin[name]}" for name in ("runs", "warmup_runs")]
        raise Refused(
            "argument_invalid",
            f"warmup_runs ({warmups}) must be fewer than runs ({runs}); {', '.join(origins)}",
            hint="Give both, for example runs 3 and warmup_runs 1.",
        )
    return {"runs": runs, "warmup_runs": warmups}


def _distinct(counts: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(counts)) != len(counts):
        raise Refused(
            "argument_invalid", "bench_request_counts names a count twice", hint="Each count is a case of its own."
        )
    return counts


def _fixed_dataset(merged: Merged) -> FixedDataset | None:
    """Return the fixed requests, when somebody asked for some; an explicit false turns a preset's off."""
    values = merged.values
    if not values["fixed"]:
        return None
    return FixedDataset(
        input_len=values.get("fixed.input_len") or DEFAULT_FIXED_LEN,
        output_len=values.get("fixed.output_len") or DEFAULT_FIXED_LEN,
        path=values.get("fixed.path"),
        prompt=values.get("fixed.prompt"),
    )


def _shown_origin(merged: Merged) -> dict[str, str]:
    """Return the origins by the names of presets: the parts of a fixed data set are ``fixed_request_dataset.PART``."""
    return {
        (f"fixed_request_dataset{name[5:]}" if name.split(".")[0] == "fixed" else name): origin
        for name, origin in merged.origin.items()
        if not (name == "fixed" and origin == DEFAULT)
    }

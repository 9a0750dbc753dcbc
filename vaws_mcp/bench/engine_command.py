"""From a request to the argument vector of ``vllm bench latency`` or ``throughput``.

Flags: their `--help`, 0.9 to 0.33.
"""

from dataclasses import dataclass
from typing import Any, Literal

from vaws_mcp.bench.command import has_flag
from vaws_mcp.bench.engine_models import BenchLatencyRequest, BenchThroughputRequest
from vaws_mcp.coordinator.asked import checked_environment
from vaws_mcp.coordinator.wanted import DeviceRequest
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.redact import redact
from vaws_mcp.serving.devices import NO_DEVICES, asked_devices, check_devices
from vaws_mcp.serving.settings import ServeSettings, default_served_name, flag_of

AnyEngineRequest = BenchLatencyRequest | BenchThroughputRequest
OWNED_FLAGS = {
    "--model": "model",
    "--output-json": "the run's directory",
    "--tensor-parallel-size": "tp",
    "-tp": "tp",
    "--input-len": "input_len",
    "--output-len": "output_len",
    "--batch-size": "batch_size",
    "--num-iters": "num_iters",
    "--num-iters-warmup": "num_iters_warmup",
    "--num-prompts": "num_prompts",
}
# Often seen in documents; no version has them.
NEVER_THERE = {"--num-iterations": "num_iters", "--num-batches": "num_prompts"}
_DATA_SETS = ("--dataset-name", "--dataset-path", "--dataset", "--random-input-len", "--random-output-len")


@dataclass(frozen=True)
class EngineSettings:
    """A benchmark of an engine to run. ``engine`` holds what it has in common with a server."""

    kind: Literal["latency", "throughput"]
    engine: ServeSettings
    shape: dict[str, int]
    timeout_s: float
    devices: DeviceRequest | None
    no_devices: bool

    @classmethod
    def of(cls, request: AnyEngineRequest) -> "EngineSettings":
        """Return the settings of a request.

        Raises: Refused for arguments that contradict each other; nothing was contacted.
        """
        _check_args(request.bench_args)
        checked_environment(request.extra_env)
        engine = ServeSettings(
            model=request.model,
            served_model_name=default_served_name(request.model),
            tp=request.tp,
            serve_args=request.bench_args,
            env=request.extra_env,
        )
        devices = asked_devices(request.devices, request.npu_count, request.extra_env)
        check_devices(devices, engine)
        kind = "latency" if isinstance(request, BenchLatencyRequest) else "throughput"
        return cls(kind, engine, _shape(request), request.bench_timeout, devices, request.devices == NO_DEVICES)

    def argv(self, output_json: str) -> list[str]:
        """Return the command that runs the benchmark and writes one result file."""
        argv = ["vllm", "bench", self.kind, "--model", self.engine.model]
        if self.engine.tp is not None:
            argv += ["--tensor-parallel-size", str(self.engine.tp)]
        if self.kind == "throughput" and not has_flag(self.engine.serve_args, "--dataset-name", "--dataset-path"):
            argv += ["--dataset-name", "random"]
        for name, value in self.shape.items():
            argv += [f"--{name.replace('_', '-')}", str(value)]
        return [*argv, *self.engine.serve_args, "--output-json", output_json]

    def as_config(self) -> dict[str, Any]:
        """Return the settings for the result, secrets masked."""
        devices: Any = self.devices.as_json() if self.devices else "none" if self.no_devices else None
        found = {"model": self.engine.model, "tp": self.engine.tp, "devices": devices, **self.shape}
        return redact({**found, "bench_args": list(self.engine.serve_args), "env": self.engine.env})


def _shape(request: AnyEngineRequest) -> dict[str, int]:
    lengths = {"input_len": request.input_len, "output_len": request.output_len}
    if isinstance(request, BenchLatencyRequest):
        return {
            **lengths,
            "batch_size": request.batch_size,
            "num_iters": request.num_iters,
            "num_iters_warmup": request.num_iters_warmup,
        }
    brought = has_flag(request.bench_args, *_DATA_SETS)
    return {**({} if brought else lengths), "num_prompts": request.num_prompts}


def _check_args(words: tuple[str, ...]) -> None:
    for flag in map(flag_of, words):
        if flag in NEVER_THERE:
            hint = f"Use the argument {NEVER_THERE[flag]}."
            raise Refused("bench_args_unknown", f"no version of vLLM has {flag}", hint=hint)
        if flag in OWNED_FLAGS:
            hint = f"It is set by us: {OWNED_FLAGS[flag]}."
            raise Refused("bench_args_conflict", f"bench_args may not contain {flag}", hint=hint)

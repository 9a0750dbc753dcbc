"""Requests and results of benchmarks."""

from typing import Any

from pydantic import Field, model_validator

from vaws_mcp.core.models import EnvVars, Result, Words
from vaws_mcp.endpoint.models import EndpointRequest
from vaws_mcp.runs.models import RunRequest


class BenchRequest(EndpointRequest, RunRequest):
    """What every benchmark takes."""

    model: str = Field(
        min_length=1, pattern=r"^[^-]", description="Model path on the endpoint, or a name that vLLM can find there."
    )
    tp: int | None = Field(default=None, ge=1, le=1024, description="Tensor parallel size. Default: vLLM's own.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Port of the service. Default: a free one.")
    served_model_name: str | None = Field(
        default=None, pattern=r"^[^-]", description="Name to serve the model under. Default: the end of its path."
    )
    serve_args: Words = Field(default=(), description="Further arguments of `vllm serve`.")
    bench_args: Words = Field(
        default=(), description="Arguments of `vllm bench serve`. Default: 32 random prompts, 8 at a time."
    )
    extra_env: EnvVars = Field(default_factory=dict, description="Environment variables of the service, NAME=VALUE.")
    bench_env: EnvVars = Field(default_factory=dict, description="Environment variables of the client, NAME=VALUE.")
    runs: int = Field(default=1, ge=1, le=1000, description="Iterations of the client per launch, with warmups.")
    warmup_runs: int = Field(default=0, ge=0, description="How many of the first iterations are not counted.")
    health_timeout: float = Field(default=1800.0, gt=0, description="Seconds a service may take to its first token.")
    bench_timeout: float = Field(default=3600.0, gt=0, description="Seconds one iteration may take.")

    @model_validator(mode="after")
    def _some_runs_count(self) -> "BenchRequest":
        if self.warmup_runs >= self.runs:
            raise ValueError(f"warmup_runs ({self.warmup_runs}) must be fewer than runs ({self.runs})")
        return self


class BenchRunRequest(BenchRequest):
    """Arguments of ``bench_run``."""


class BenchRunResult(Result):
    """A measured service. ``metrics`` are those of the one run, or the means of the counted ones."""

    task_id: str = Field(description="Task that the run belongs to.")
    model: str = Field(description="Model that was served.")
    metrics: dict[str, float | None] = Field(description="Means over the counted iterations; null when not measured.")
    config: dict[str, Any] = Field(description="tp, serve_args, bench_args, env and the other effective settings.")
    runs: int = Field(description="Iterations of the client, with warmups.")
    warmup_runs: int = Field(description="Iterations that were not counted.")
    aggregated: dict[str, Any] = Field(description="count (without warmups), and per metric mean, stddev, values[].")
    per_run: list[dict[str, Any]] = Field(description="run, warmup, metrics of each iteration.")
    launch: dict[str, Any] = Field(description="Execution id, command, seconds to each phase.")
    result_paths: list[str] = Field(default_factory=list[str], description="Files with the raw results.")

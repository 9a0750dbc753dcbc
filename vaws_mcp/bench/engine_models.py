"""Requests and results of bench_latency and bench_throughput."""

from typing import Any, Literal

from pydantic import Field

from vaws_mcp.coordinator.asked import DeviceIds
from vaws_mcp.core.models import EnvVars, Result, Words
from vaws_mcp.endpoint.models import EndpointRequest
from vaws_mcp.runs.models import RunRequest


class EngineBenchRequest(EndpointRequest, RunRequest):
    """What both benchmarks take."""

    model: str = Field(
        min_length=1, pattern=r"^[^-]", description="Model path on the endpoint, or a name that vLLM can find there."
    )
    tp: int | None = Field(default=None, ge=1, le=1024, description="Tensor parallel size. Default: vLLM's own, 1.")
    devices: DeviceIds = Field(default=(), description="Logic ids of NPUs such as 0,1, or `none` for CPU.")
    npu_count: int | None = Field(
        default=None, ge=1, le=1024, description="Number of NPUs; the endpoint chooses free ones. Instead of devices."
    )
    bench_args: Words = Field(
        default=(), description="Further flags of the benchmark and of its engine, such as --enforce-eager."
    )
    extra_env: EnvVars = Field(default_factory=dict, description="Environment variables, NAME=VALUE.")
    bench_timeout: float = Field(
        default=3600.0, gt=0, description="Seconds the benchmark may take once it has its devices."
    )


class BenchLatencyRequest(EngineBenchRequest):
    """Arguments of ``bench_latency``."""

    input_len: int = Field(default=32, ge=1, le=10_000_000, description="Tokens of each prompt.")
    output_len: int = Field(default=128, ge=1, le=10_000_000, description="Tokens of each answer.")
    batch_size: int = Field(default=8, ge=1, le=1_000_000, description="Prompts that are processed together.")
    num_iters: int = Field(default=30, ge=1, le=1_000_000, description="Measured iterations.")
    num_iters_warmup: int = Field(default=10, ge=0, le=1_000_000, description="Iterations before, not measured.")


class BenchThroughputRequest(EngineBenchRequest):
    """Arguments of ``bench_throughput``."""

    input_len: int = Field(
        default=256, ge=1, le=10_000_000, description="Tokens of each prompt, unless bench_args bring a data set."
    )
    output_len: int = Field(
        default=64, ge=1, le=10_000_000, description="Tokens of each answer, unless bench_args bring a data set."
    )
    num_prompts: int = Field(default=1000, ge=1, le=10_000_000, description="Requests.")


class EngineBenchResult(Result):
    """What an engine measured without a server.

    Units: seconds for latency, per second for throughput.
    """

    task_id: str = Field(description="Task that the run belongs to.")
    model: str = Field(description="Model path or name.")
    kind: Literal["latency", "throughput"] = Field(description="The benchmark.")
    metrics: dict[str, float | None] = Field(
        description="latency: avg, p50, p90 and p99 of a whole batch; throughput: requests and tokens; both: "
        "output_throughput, generated tokens per second."
    )
    details: dict[str, Any] = Field(description="Iterations, requests and tokens.")
    config: dict[str, Any] = Field(description="Effective settings, secrets masked.")
    execution_id: str = Field(description="Execution that ran it.")
    command: list[str] = Field(description="Command, secrets masked.")
    devices: list[str] = Field(default_factory=list[str], description="Logic ids of the NPUs that it was given.")
    duration_s: float | None = Field(default=None, description="Seconds from its start to its end, with loading.")
    client_version: str | None = Field(default=None, description="Version of vLLM, as its output states it.")
    result_paths: list[str] = Field(default_factory=list[str], description="Files with the raw result and the output.")

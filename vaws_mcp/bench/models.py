"""Requests and results of benchmarks."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from vaws_mcp.coordinator.asked import DeviceIds
from vaws_mcp.core.models import EnvVars, Request, Result, Words
from vaws_mcp.endpoint.models import EndpointRequest
from vaws_mcp.runs.models import RunRequest

ORIGIN = (
    "Where each setting came from: explicit, preset:NAME, nightly:NAME, service or default; env.NAME for each variable."
)
NIGHTLY = (
    "Nightly case that settings came from: name, case, block, source with its commit, derived (why it is another "
    "workload than the nightly's own), not_carried_over, notes."
)


def _counts(value: Any) -> Any:
    """Take ``1,2`` as two items, also within a list."""
    items = value if isinstance(value, list | tuple) else [value]
    return [part.strip() for item in items for part in str(item).split(",") if part.strip()]


Counts = Annotated[tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...], BeforeValidator(_counts)]
"""Numbers: a list, or one string with commas."""


class BenchRequest(EndpointRequest, RunRequest):
    """What every benchmark takes. What is left out comes from the preset, then the nightly case, then the default."""

    model: str = Field(
        min_length=1, pattern=r"^[^-]", description="Model path on the endpoint, or a name that vLLM can find there."
    )
    preset: str | None = Field(
        default=None,
        min_length=1,
        description="Preset for what is not given here: a name (preset_list), or a JSON file.",
    )
    refer_nightly: str | None = Field(
        default=None,
        min_length=1,
        description="Nightly configuration of vllm-ascend for what neither an argument nor the preset gives: NAME, "
        "NAME:CASE or NAME:CASE:BLOCK (nightly_show).",
    )
    nightly_root: str | None = Field(
        default=None,
        min_length=1,
        description="Directory with nightly configurations, or with a checkout: here when it exists here, else on the "
        "endpoint. Default: the commit that the endpoint's vllm-ascend stands at.",
    )
    tp: int | None = Field(default=None, ge=1, le=1024, description="Tensor parallel size. Default: vLLM's own, 1.")
    dp: int | None = Field(default=None, ge=1, le=1024, description="Data parallel size. Default: vLLM's own, 1.")
    devices: DeviceIds = Field(default=(), description="Logic ids of NPUs such as 0,1, or `none` for CPU.")
    npu_count: int | None = Field(
        default=None, ge=1, le=1024, description="Number of NPUs; the endpoint chooses free ones. Instead of devices."
    )
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
    health_timeout: float = Field(
        default=1800.0, gt=0, le=1e6, description="Seconds a service may take to its first token."
    )
    bench_timeout: float = Field(default=3600.0, gt=0, description="Seconds one iteration may take.")
    stall_timeout: float = Field(
        default=120.0, gt=0, description="Seconds in which nothing may move, until a client that hangs is ended."
    )


class CasesRequest(Request):
    """What a comparison takes besides: how many requests each case has, and identical requests for all."""

    vllm_ref: str | None = Field(default=None, pattern=r"^[^-]", description="State of vLLM that all launches use.")
    bench_request_counts: Counts = Field(
        default=(), description="Cases such as 1,2: each number is that of prompts and of concurrent requests."
    )
    fixed_request_dataset: bool = Field(
        default=False, description="Send identical prompts of an exact length, made once on the endpoint."
    )
    fixed_input_len: int | None = Field(default=None, ge=1, le=10_000_000, description="Tokens of each prompt.")
    fixed_output_len: int | None = Field(default=None, ge=1, le=10_000_000, description="Tokens of each answer.")
    fixed_dataset_path: str | None = Field(
        default=None, min_length=1, description="Data set on the endpoint to use instead of making one."
    )
    fixed_prompt: str | None = Field(default=None, min_length=1, description="Text that the prompts are made from.")


class BenchRunRequest(BenchRequest):
    """Arguments of ``bench_run``. The model is left out only for a service that lives already."""

    model: str = Field(
        default="", pattern=r"^[^-]", description="Model path on the endpoint, or a name that vLLM can find there."
    )
    execution_id: str | None = Field(
        default=None, description="Service to measure: a live one, which stays, or the one of an answer `queued`."
    )
    service: str | None = Field(default=None, min_length=1, description="Name of a live service to measure; it stays.")
    queue_wait: float = Field(
        default=30.0, ge=0, le=1e6, description="Seconds to wait for NPUs that are in use before answering `queued`."
    )
    skip_parity: bool = Field(
        default=False, description="Measure what is on the endpoint, also when the task has local trees bound."
    )

    @property
    def attaches(self) -> bool:
        """Whether it names a service."""
        return self.execution_id is not None or self.service is not None


class BenchRunResult(Result):
    """A measured service. ``metrics`` are those of the one run, or the means of the counted ones."""

    task_id: str = Field(description="Task that the run belongs to.")
    model: str = Field(description="Model that was served.")
    execution_id: str = Field(description="Execution of the service.")
    started_by_this_run: bool = Field(description="False for a live service that was named, which stays running.")
    code: dict[str, str | None] = Field(
        default_factory=dict[str, str | None], description="sha and subject of the vllm-ascend that was measured."
    )
    queue: dict[str, Any] | None = Field(default=None, description="While queued: position and who holds the NPUs.")
    cleanup_warning: str | None = Field(default=None, description="Why the service could not be stopped.")
    metrics: dict[str, float | None] = Field(description="Means over the counted iterations; null when not measured.")
    config: dict[str, Any] = Field(description="tp, serve_args, bench_args, env and the other effective settings.")
    runs: int = Field(description="Iterations of the client, with warmups.")
    warmup_runs: int = Field(description="Iterations that were not counted.")
    aggregated: dict[str, Any] = Field(description="count (without warmups), and per metric mean, stddev, values[].")
    per_run: list[dict[str, Any]] = Field(
        description="run, warmup, metrics, requests, tokens and service_counted of each iteration."
    )
    config_origin: dict[str, str] = Field(description=ORIGIN)
    preset: str | None = Field(default=None, description="Preset that settings came from.")
    nightly: dict[str, Any] | None = Field(default=None, description=NIGHTLY)
    launch: dict[str, Any] = Field(description="Execution id, command, seconds to each phase.")
    result_paths: list[str] = Field(default_factory=list[str], description="Files with the raw results.")

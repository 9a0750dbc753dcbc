"""Requests and results of the ``serve_*`` operations and ``explain_failure``."""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from vaws_mcp.coordinator.asked import DeviceIds
from vaws_mcp.coordinator.models import ExecutionId, ServiceName
from vaws_mcp.core.models import EnvVars, Names, Request, Result, Words
from vaws_mcp.endpoint.models import EndpointRequest

DEFAULT_SERVICE = "vllm"
CLASS = (
    "What went wrong: oom, npu_busy, kv_cache, config, port_conflict, model, usage, version and others; `unclassified` "
    "when no signature is known, `ready` or `progress` when the log shows no failure."
)


class ServeStartRequest(EndpointRequest):
    """Arguments of ``serve_start``."""

    model: str = Field(
        min_length=1, pattern=r"^[^-]", description="Model path on the endpoint, or a name that vLLM can find there."
    )
    preset: str | None = Field(
        default=None,
        min_length=1,
        description="Preset for what is not given here: a name (preset_list), or a JSON file.",
    )
    served_model_name: str | None = Field(
        default=None, pattern=r"^[^-]", description="Name to serve the model under. Default: the end of its path."
    )
    tp: int | None = Field(default=None, ge=1, le=1024, description="Tensor parallel size. Default: vLLM's own, 1.")
    dp: int | None = Field(default=None, ge=1, le=1024, description="Data parallel size. Default: vLLM's own, 1.")
    devices: DeviceIds = Field(
        default=(),
        description="Logic ids of NPUs such as 0,1, or `none` for CPU. Default: on an endpoint with NPUs any tp x dp "
        "free ones; without NPUs none.",
    )
    npu_count: int | None = Field(
        default=None, ge=1, le=1024, description="Number of NPUs; the endpoint chooses free ones. Instead of devices."
    )
    host: str | None = Field(default=None, min_length=1, pattern=r"^[^-]", description="Default: 127.0.0.1.")
    port: int | None = Field(default=None, ge=1, le=65535, description="Port of the service. Default: a free one.")
    health_timeout: float = Field(
        default=1800.0, gt=0, le=1e6, description="Seconds the service may take to its first token, queue not counted."
    )
    extra_env: EnvVars = Field(default_factory=dict, description="Environment variables to add, NAME=VALUE.")
    unset_env: Names = Field(default=(), description="Environment variables to remove.")
    unset_args: Names = Field(default=(), description="Flags to take out of serve_args, with their values.")
    serve_args: Words = Field(
        default=(), description="Further arguments of `vllm serve`; on the command line after --."
    )
    service: ServiceName = Field(default=DEFAULT_SERVICE, description="Name of the service in its task.")
    restart: bool = Field(default=False, description="Replace the service that runs under this name.")
    skip_parity: bool = Field(
        default=False, description="Do not bring the task's local source trees to the endpoint first (see code_sync)."
    )
    idle_ttl: str | None = Field(
        default=None,
        description="Stop it when no serve_start, serve_status or serve_logs was called for it for so long: 90s, "
        "30m, 2h. Requests to the service do not count. Default: never.",
    )
    wait: bool = Field(default=True, description="Wait for the first token; without, answer when it is submitted.")
    wait_s: float | None = Field(
        default=None,
        ge=0,
        description="Seconds to wait for the first token before answering `starting` (tool calls: 45; command line: no "
        "limit but health_timeout).",
    )


class ServiceRequest(EndpointRequest):
    """Arguments of ``serve_status`` and ``serve_stop``."""

    service: ServiceName = Field(default=DEFAULT_SERVICE, description="Name of the service in its task.")


class ServeStatusRequest(ServiceRequest):
    """Arguments of ``serve_status``."""

    token_timeout: float = Field(
        default=10.0, ge=0, le=600, description="Ask for one token and wait so many seconds for it; 0 = do not ask."
    )


class ServeLogsRequest(ServiceRequest):
    """Arguments of ``serve_logs``."""

    cursor: str | None = Field(
        default=None,
        pattern=r"^\d{1,15}\.\d{1,15}$",
        description="Go on where the answer with this cursor ended. Default: the ends of both logs.",
    )
    max_bytes: int = Field(default=16_000, ge=4, le=4 << 20, description="Return at most so many bytes of each log.")


class ServiceResult(Result):
    """A service."""

    service: str = Field(description="Name of the service in its task.")
    execution_id: str | None = Field(default=None, description="Id of its execution; null when there is none.")
    state: str = Field(
        description="ready, queued, starting, degraded (it runs, but does not answer as it should), stopping, exited, "
        "lost, never_started or absent."
    )
    missing: str | None = Field(default=None, description="The first condition of readiness that does not hold.")
    model: str | None = Field(default=None, description="Model that is served.")
    served_model_name: str | None = Field(default=None, description="Name that requests must use.")
    host: str | None = Field(default=None, description="Address on the endpoint that it is bound to.")
    port: int | None = Field(default=None, description="Its port on the endpoint.")
    phases: dict[str, float] = Field(
        default_factory=dict[str, float],
        description="Seconds from the launch to the end of each phase: weights, compile, graph_capture, engine, http, "
        "models, first_token. Phases that the log does not tell are absent.",
    )
    took: dict[str, float] = Field(
        default_factory=dict[str, float], description="Seconds that vLLM itself states for weights, compile and others."
    )
    devices: list[dict[str, Any]] | None = Field(default=None, description="Granted devices; null before the grant.")
    queue: dict[str, Any] | None = Field(
        default=None, description="While queued: position, since, waiting_for with holders, ahead."
    )
    blocked: dict[str, Any] | None = Field(default=None, description="Why nothing is granted: code, message, hint.")


class ServeStartResult(ServiceResult):
    """A service that was started or reconnected to."""

    reconnected: bool = Field(description="Whether it was there already, with the same arguments.")
    command: list[str] = Field(description="Its command; secrets are masked.")
    preset: str | None = Field(default=None, description="Preset that settings came from, as it was given.")
    config_origin: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="Where each setting came from: explicit, preset:NAME or default; env.NAME for each variable.",
    )


class ServeStatusResult(ServiceResult):
    """A service as it is now."""

    health: int | None = Field(default=None, description="Status of /health; null when it does not answer.")
    models: list[str] = Field(default_factory=list[str], description="Names that /v1/models lists.")
    first_token_s: float | None = Field(default=None, description="Seconds to one token now; null when there was none.")
    engine_processes: int | None = Field(
        default=None, description="Living engine and worker processes; 0 with a living server means a dead service."
    )
    processes: int | None = Field(default=None, description="All living processes of the service.")
    supervised: bool | None = Field(default=None, description="Whether its supervisor lives, which holds its devices.")
    exit: dict[str, Any] | None = Field(default=None, description="How it ended: reason, code, signal.")
    diagnosis: dict[str, Any] | None = Field(
        default=None, description="For a service that failed: class, signature, line, hint, secondary."
    )
    services: dict[str, str] = Field(
        default_factory=dict[str, str], description="All services of the task, with their execution ids."
    )


class ServeStopResult(Result):
    """A service that was stopped."""

    service: str = Field(description="Name of the service in its task.")
    execution_id: str | None = Field(default=None, description="Id of its execution; null when there was none.")
    state: str = Field(description="exited, lost, never_started or absent.")
    resources_released: bool = Field(
        description="Whether every process is gone, the ports are closed and the devices are free."
    )
    was_running: bool = Field(description="Whether there was something to stop.")
    exit: dict[str, Any] | None = Field(default=None, description="How it ended: reason, code, signal.")


class ServeLogsResult(Result):
    """A piece of both logs of a service."""

    service: str = Field(description="Name of the service in its task.")
    execution_id: str = Field(description="Id of its execution.")
    state: str = Field(description="State of its execution.")
    stdout: str = Field(description="The piece of stdout; it ends with a whole character.")
    stderr: str = Field(description="The piece of stderr.")
    cursor: str = Field(description="Pass it to read on.")
    more: bool = Field(description="Whether there is more to read now.")
    eof: bool = Field(description="Whether nothing will follow.")


class ExplainFailureRequest(Request):
    """Arguments of ``explain_failure``: one of log, text, execution_id and service."""

    log: str | None = Field(
        default=None, min_length=1, description="Log file on this machine; `-` is standard input (command line only)."
    )
    text: str | None = Field(default=None, description="The text of a log itself.")
    execution_id: ExecutionId | None = Field(default=None, description="Explain the log of this execution of the task.")
    service: ServiceName | None = Field(default=None, description="Explain the log of this service of the task.")
    context_file: str | None = Field(
        default=None, description="Path of the task's context.json, for execution_id and service."
    )


class ExplainFailureResult(Result):
    """Why a start failed, as its log tells."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, serialize_by_alias=True)

    cls: str = Field(alias="class", description=CLASS)
    signature: str | None = Field(default=None, description="Id of the signature that was found.")
    phase: str = Field(description="Phase of the start that the line stands in: init, weights, compile and so on.")
    line: str | None = Field(default=None, description="The line that names the cause.")
    line_number: int | None = Field(default=None, description="Its number in the log, from 1; stdout before stderr.")
    failure: bool = Field(description="Whether the log shows a failure at all.")
    secondary: list[dict[str, str]] = Field(
        default_factory=list[dict[str, str]], description="Consequences and later failures: class, signature, line."
    )
    phases: dict[str, float] = Field(
        default_factory=dict[str, float], description="Seconds to the end of each phase, by the log's own clock."
    )
    tail: str | None = Field(default=None, description="The end of the log, when no signature was found.")
    source: Literal["file", "stdin", "text", "execution"] = Field(description="Where the log came from.")

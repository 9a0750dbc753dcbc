"""Requests and results of the coordinator's operations."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from vaws_mcp.coordinator.asked import DeviceIds, Ports
from vaws_mcp.core.models import EnvVars, Names, Result, Words
from vaws_mcp.endpoint.models import EndpointRequest
from vaws_mcp.taskstore.models import TaskRequest, TaskResult

ServiceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
ExecutionId = Annotated[str, StringConstraints(pattern=r"^execution-\d{8}T\d{6}-[0-9a-f]{8}$")]

DEVICES = "Logic ids of NPUs, such as 0,1."
COUNT = "Number of NPUs; the endpoint chooses free ones."
ASSUME_FREE = "Take devices without a probe; recorded, and bars formal results."
SKIP_HEALTH = "Take devices whatever their health; recorded, and bars formal results."
WAIT = "Seconds to wait before answering with the state as it is (tool calls: 45; command line: no limit)."


class TaskFinishRequest(TaskRequest):
    """Arguments of ``task_finish``."""

    abandon: bool = Field(
        default=False, description="Close the task even if an endpoint is gone; what may be left there is named."
    )
    stop: bool = Field(default=False, description="Cancel runs that are still under way, instead of refusing.")


class TaskFinishResult(TaskResult):
    """A finished task."""

    stopped: list[str] = Field(default_factory=list[str], description="Executions that were stopped now.")
    cancelled_runs: list[str] = Field(default_factory=list[str], description="Runs that were cancelled.")


class VawsRunRequest(EndpointRequest):
    """Arguments of ``vaws_run``."""

    command: Words = Field(description="Command and arguments; on the command line after `--`.")
    devices: DeviceIds = Field(default=(), description=f"{DEVICES} Default: none, a CPU run.")
    npu_count: int | None = Field(default=None, ge=1, le=1024, description=f"{COUNT} Instead of devices.")
    ports: Ports = Field(default=(), description="Ports that the command will listen on; leased like devices.")
    reservation: ExecutionId | None = Field(
        default=None,
        description="Use what this hold (npu_hold) keeps; devices choose among its devices.",
    )
    env: EnvVars = Field(default_factory=dict, description="Environment variables to add.")
    unset_env: Names = Field(default=(), description="Environment variables to remove.")
    cwd: str | None = Field(default=None, description="Directory to start in. Default: the endpoint's workdir.")
    timeout: float | None = Field(default=None, gt=0, le=1e8, description="End it after so many seconds.")
    preflight: Words = Field(
        default=(), description="A command that must succeed first, in the same environment and directory."
    )
    service: ServiceName | None = Field(
        default=None, description="Name of the execution in its task. The same request again reconnects to it."
    )
    restart: bool = Field(default=False, description="Replace the service that runs under this name.")
    wait_until: Literal["running", "ready", "exited", "released"] | None = Field(
        default=None,
        description="Wait until the command runs, its ports answer, it has ended, or all it held is free. "
        "Default: answer when it runs or is queued.",
    )
    wait_s: float | None = Field(default=None, ge=0, description=WAIT)
    assume_free: bool = Field(default=False, description=ASSUME_FREE)
    skip_health: bool = Field(default=False, description=SKIP_HEALTH)


class VawsExecutionRequest(EndpointRequest):
    """Arguments of ``vaws_execution``."""

    execution_id: ExecutionId | None = Field(
        default=None, description="Id of the execution. Without id and service, `status` lists the task's executions."
    )
    service: ServiceName | None = Field(default=None, description="Name of the task's service, instead of an id.")
    action: Literal["status", "tail", "wait", "stop"] = Field(
        default="status", description="What to do: look at it, read its output, wait for it, or end it."
    )
    until: Literal["running", "ready", "exited", "released"] = Field(
        default="released", description="wait: until it runs, its ports answer, it has ended, or all it held is free."
    )
    wait_s: float | None = Field(default=None, ge=0, description=WAIT)
    stream: Literal["stdout", "stderr", "supervisor"] = Field(default="stdout", description="tail: which log to read.")
    offset: int | None = Field(
        default=None, ge=0, description="tail: byte offset, the next_offset of the piece before. Default: the end."
    )
    max_bytes: int = Field(default=30_000, ge=4, le=8 << 20, description="tail: return at most so many bytes.")


class NpuHoldRequest(EndpointRequest):
    """Arguments of ``npu_hold``."""

    duration: str | None = Field(default=None, description="How long to hold them: 90s, 30m, 2h, 1h30m.")
    devices: DeviceIds = Field(default=(), description=DEVICES)
    npu_count: int | None = Field(default=None, ge=1, le=1024, description=f"{COUNT} Instead of devices.")
    release: ExecutionId | None = Field(default=None, description="End this hold, instead of beginning one.")
    wait_s: float | None = Field(default=None, ge=0, description=WAIT)
    assume_free: bool = Field(default=False, description=ASSUME_FREE)
    skip_health: bool = Field(default=False, description=SKIP_HEALTH)


class Row(Result):
    """What an answer says of one execution, beside what its owner asked for."""

    execution_id: str | None = Field(default=None, description="Id of the execution.")
    task_id: str | None = Field(default=None, description="Task that it belongs to.")


class ExecutionResult(Row):
    """One execution."""

    kind: str = Field(description="run, serve, hold or reservation.")
    service: str | None = Field(default=None, description="Its name in its task.")
    reconnected: bool = Field(default=False, description="Whether it was there already, with the same request.")
    endpoint: str = Field(description="Where it is.")
    state: str = Field(
        description="queued, starting, running, stopping, exited, lost (neither process nor record can be verified) "
        "or never_started (the endpoint does not have it)."
    )
    exit_code: int | None = Field(default=None, description="Exit code; null while it lives or when it is not known.")
    signal: int | None = Field(default=None, description="Number of the signal that ended it.")
    exit_reason: str | None = Field(default=None, description="succeeded, failed, cancelled or timeout.")
    command: list[str] = Field(description="Its command; secrets are masked.")
    devices: list[dict[str, Any]] | None = Field(default=None, description="Granted devices; null before the grant.")
    ports: list[int] = Field(default_factory=list[int], description="Its ports.")
    lease_scope: str | None = Field(
        default=None, description="How far its hold on devices and ports is seen: host or container."
    )
    lease_scope_why: str | None = Field(default=None, description="What the scope was concluded from.")
    queue: dict[str, Any] | None = Field(
        default=None, description="While queued: position, since, waiting_for with holders, ahead."
    )
    blocked: dict[str, Any] | None = Field(default=None, description="Why nothing is granted: code, message, hint.")
    probe: dict[str, Any] | None = Field(default=None, description="The last look at the devices.")
    assumed_free: bool = Field(default=False, description="Whether devices were taken without a probe.")
    health_skipped: bool = Field(default=False, description="Whether the health of devices was not asked for.")
    reservation: str | None = Field(default=None, description="Hold whose devices and ports it uses.")
    resources_released: bool | None = Field(
        default=None, description="Whether every process is gone, the ports are closed and the devices are free."
    )
    processes: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]], description="Living processes.")
    survivors: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="Processes that could not be ended."
    )
    stop_reason: str | None = Field(default=None, description="Why it was stopped.")
    note: str | None = Field(default=None, description="What its supervisor has to say.")
    submitted_at: str | None = Field(default=None, description="When it was submitted, UTC.")
    running_at: str | None = Field(default=None, description="When its command was started, UTC.")
    ended_at: str | None = Field(default=None, description="When it ended, UTC.")
    log_bytes: dict[str, int | None] = Field(
        default_factory=dict[str, int | None], description="Sizes of stdout, stderr and supervisor logs."
    )
    stdout_tail: str | None = Field(default=None, description="End of its output, when it has ended.")
    stderr_tail: str | None = Field(default=None, description="End of its error output, when it has ended.")
    receipt: dict[str, Any] = Field(
        default_factory=dict[str, Any],
        description="Facts of the launch: sources and commits, versions of the environment, digest of its variables.",
    )
    remote_dir: str | None = Field(default=None, description="Directory of its logs and records on the endpoint.")


class TailResult(Row):
    """A piece of an execution's output."""

    stream: str = Field(description="The log.")
    content: str = Field(description="The piece; it ends with a whole character.")
    offset: int = Field(description="Offset of its first byte.")
    next_offset: int = Field(description="Where the next piece begins.")
    size: int = Field(description="Size of the log so far.")
    eof: bool = Field(description="Whether nothing will follow.")


class ExecutionListResult(Row):
    """The executions of a task."""

    executions: list[dict[str, Any]] = Field(description="The executions, the newest first.")
    unreachable: list[str] = Field(
        default_factory=list[str], description="Endpoints that did not answer; states there are as last recorded."
    )

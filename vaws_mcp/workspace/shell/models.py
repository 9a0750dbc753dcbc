"""Request and result of ``remote_bash``."""

from typing import Any

from pydantic import Field

from vaws_mcp.core.models import EnvVars, Result
from vaws_mcp.endpoint.models import EndpointRequest


class BashRequest(EndpointRequest):
    """Arguments of ``remote_bash``."""

    command: str = Field(min_length=1, description="Command line for bash.")
    cwd: str | None = Field(default=None, description="Directory to start in. Default: the endpoint's workdir.")
    env: EnvVars = Field(default_factory=dict, description="Environment variables to add.")
    stdin: str | None = Field(default=None, description="Text for the command's standard input. Default: empty.")
    stdin_open: bool = Field(default=False, description="Keep standard input open, for job_stdin.")
    tty: bool = Field(default=False, description="Run on a terminal of 120x40: one stream, stdin stays open.")
    yield_time_ms: int = Field(
        default=10_000,
        ge=0,
        le=3_600_000,
        description="A command that runs longer is answered as a job, which goes on; 0 = at once.",
    )
    timeout_ms: int | None = Field(
        default=None,
        ge=1,
        le=30 * 86_400_000,
        description="End the whole process family after this time, also that of a job. Default: no limit.",
    )
    detach: bool = Field(default=False, description="If the connection is lost before it yields, let it become a job.")
    max_output_bytes: int = Field(
        default=30_000,
        ge=0,
        le=8 << 20,
        description="Return at most so many bytes of each stream (head and tail); the whole is kept for job_tail.",
    )
    log_limit_bytes: int = Field(
        default=2 << 30, ge=1 << 20, description="Keep at most so many bytes of output on the endpoint."
    )
    login_shell: bool = Field(default=False, description="Use a real login shell instead of the cached environment.")
    refresh_env: bool = Field(default=False, description="Source the endpoint's env_files again.")


class BashResult(Result):
    """How a command ended, or what it has written so far. A non-zero exit is a result, not an error."""

    exit_code: int | None = Field(description="Exit code; null when a signal ended it or it still runs.")
    signal: str | None = Field(default=None, description="Name of the signal that ended it, such as SIGKILL.")
    stdout: str = Field(description="Standard output, at most max_output_bytes.")
    stderr: str = Field(description="Standard error, at most max_output_bytes.")
    stdout_bytes: int = Field(description="Size of the standard output so far.")
    stderr_bytes: int = Field(description="Size of the standard error so far.")
    truncated: bool = Field(default=False, description="Whether the middle of a stream was left out.")
    timed_out: bool = Field(default=False, description="Whether the time limit ended it.")
    drained: dict[str, Any] | None = Field(default=None, description="Processes that were ended, and survivors.")
    env_source: str | None = Field(default=None, description="direct, cached, sourced or login_shell.")
    job_id: str | None = Field(default=None, description="Set when it still runs, or when its whole output is kept.")
    stdout_cursor: int | None = Field(default=None, description="Offset at which job_tail goes on with stdout.")
    stderr_cursor: int | None = Field(default=None, description="Offset at which job_tail goes on with stderr.")
    log_dir: str | None = Field(default=None, description="Directory of the complete logs on the endpoint.")
    dropped_bytes: int = Field(default=0, description="Bytes of output that the logs could not take.")

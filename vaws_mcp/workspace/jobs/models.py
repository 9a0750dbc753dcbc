"""Requests and results of the ``job_*`` operations."""

from typing import Any, Literal

from pydantic import Field

from vaws_mcp.core.models import Result
from vaws_mcp.endpoint.models import EndpointRequest

JOB_ID = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
StreamName = Literal["stdout", "stderr"]
STATES = "running, exited, lost_keeper (its keeper died, processes live) or lost (it ended unseen)."


class JobRequest(EndpointRequest):
    """Names one job of an endpoint."""

    job_id: str = Field(pattern=JOB_ID, description="Id of the job, on the endpoint where it was started.")


class StatusRequest(JobRequest):
    """Arguments of ``job_status``."""


class JobResult(Result):
    """One job."""

    job_id: str = Field(description="Id of the job.")
    state: str = Field(description=STATES)
    exit_code: int | None = Field(description="Exit code; null while it runs, when a signal ended it or unknown.")
    signal: str | None = Field(default=None, description="Name of the signal that ended it.")
    timed_out: bool = Field(default=False, description="Whether its time limit ended it.")
    command: str = Field(description="Its command line; secrets are masked.")
    cwd: str = Field(description="Directory it was started in.")
    tty: bool = Field(description="Whether it runs on a terminal.")
    stdin_open: bool = Field(description="Whether job_stdin can write to it.")
    began_at: str = Field(description="When it was started, UTC.")
    ended_at: str | None = Field(default=None, description="When it ended, UTC.")
    stop_requested_at: str | None = Field(default=None, description="When job_stop was called first, UTC.")
    stdout_bytes: int = Field(description="Bytes of stdout that can be read with job_tail.")
    stderr_bytes: int = Field(description="Bytes of stderr that can be read with job_tail.")
    dropped_bytes: int = Field(default=0, description="Bytes of output that the logs could not take.")
    processes: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="Its living processes; not filled in by job_list."
    )
    log_dir: str = Field(description="Directory of its logs on the endpoint.")


class StopRequest(JobRequest):
    """Arguments of ``job_stop``."""

    interrupt_ms: int = Field(
        default=1000, ge=0, le=60_000, description="Wait so long after SIGINT (SIGHUP on a terminal); 0 = without it."
    )
    grace_ms: int = Field(default=2000, ge=0, le=60_000, description="Wait so long after SIGTERM, before SIGKILL.")


class StopResult(JobResult):
    """A job after it was stopped."""

    drained: int = Field(description="Number of processes that were signalled.")
    survivors: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="Processes that could not be ended."
    )
    state_before: str = Field(description="Its state when job_stop was called.")


class TailRequest(JobRequest):
    """Arguments of ``job_tail``."""

    stream: StreamName = Field(default="stdout", description="Which stream to read.")
    offset: int = Field(default=0, description="Byte offset: a cursor or next_offset. Negative counts from the end.")
    max_bytes: int = Field(default=30_000, ge=4, le=8 << 20, description="Return at most so many bytes.")
    wait_ms: int = Field(
        default=0, ge=0, le=600_000, description="When nothing new is there, wait so long for it or for the job's end."
    )


class TailResult(Result):
    """A piece of a job's output."""

    job_id: str = Field(description="Id of the job.")
    stream: StreamName = Field(description="The stream.")
    content: str = Field(description="The piece; it ends with a whole character.")
    offset: int = Field(description="Offset of its first byte.")
    next_offset: int = Field(description="Where the next piece begins.")
    size: int = Field(description="Size of the stream so far.")
    eof: bool = Field(description="Whether nothing will follow.")
    state: str = Field(description=STATES)
    exit_code: int | None = Field(default=None, description="Exit code once it has ended.")
    signal: str | None = Field(default=None, description="Name of the signal that ended it.")
    dropped_bytes: int = Field(default=0, description="Bytes after the end of the log that it could not take.")
    replaced_bytes: bool = Field(default=False, description="Whether bytes that are no UTF-8 were shown as �.")


class StdinRequest(JobRequest):
    """Arguments of ``job_stdin``."""

    data: str = Field(default="", description="Text to write. On a terminal \\u0003 is Ctrl-C.")
    eof: bool = Field(default=False, description="Close standard input after it (Ctrl-D on a terminal).")
    wait_ms: int = Field(default=5000, ge=0, le=600_000, description="How long to wait for the job to read it.")


class StdinResult(Result):
    """What became of the input."""

    job_id: str = Field(description="Id of the job.")
    written_bytes: int = Field(description="Bytes that were written.")
    remainder: str = Field(default="", description="The rest of data that was not written; send it again.")
    closed: bool = Field(description="Whether standard input is closed now.")


class ListRequest(EndpointRequest):
    """Arguments of ``job_list``."""

    limit: int = Field(default=20, ge=1, le=1000, description="At most so many jobs, the newest first.")
    running_only: bool = Field(default=False, description="Only jobs of which something still runs.")


class ListResult(Result):
    """The jobs of an endpoint."""

    jobs: list[dict[str, Any]] = Field(description="The jobs, the newest first, with the fields of job_status.")
    left_out: int = Field(default=0, description="Number of further jobs.")
    unreadable: list[str] = Field(default_factory=list[str], description="Directories of jobs without a usable record.")

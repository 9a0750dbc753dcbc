"""Requests and results of the ``remote_*`` operations."""

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
    timeout_ms: int = Field(
        default=120_000, ge=1, le=86_400_000, description="After this time the whole process family is ended."
    )
    max_output_bytes: int = Field(
        default=30_000,
        ge=0,
        le=8 << 20,
        description="Keep at most so many bytes of each stream (head and tail).",
    )
    login_shell: bool = Field(default=False, description="Use a real login shell instead of the cached environment.")
    refresh_env: bool = Field(default=False, description="Source the endpoint's env_files again.")


class BashResult(Result):
    """How a command ended. A non-zero exit is a result, not an error."""

    exit_code: int | None = Field(description="Exit code; null when a signal ended it.")
    signal: str | None = Field(default=None, description="Name of the signal that ended it, such as SIGKILL.")
    stdout: str = Field(description="Standard output, at most max_output_bytes.")
    stderr: str = Field(description="Standard error, at most max_output_bytes.")
    stdout_bytes: int = Field(description="Size of the whole standard output.")
    stderr_bytes: int = Field(description="Size of the whole standard error.")
    truncated: bool = Field(default=False, description="Whether the middle of a stream was left out.")
    timed_out: bool = Field(default=False, description="Whether the time limit ended it.")
    drained: dict[str, Any] | None = Field(default=None, description="Processes that were ended, and survivors.")
    env_source: str | None = Field(default=None, description="direct, cached, sourced or login_shell.")


class ReadRequest(EndpointRequest):
    """Arguments of ``remote_read``."""

    file_path: str = Field(min_length=1, description="File to read.")
    offset: int | None = Field(default=None, description="First line, from 1; negative counts from the end.")
    limit: int | None = Field(default=None, ge=1, description="Number of lines.")
    max_bytes: int = Field(default=262_144, ge=1, le=8 << 20, description="Return at most so many bytes.")


class ReadResult(Result):
    """Lines of a file."""

    path: str = Field(description="Real path of the file.")
    content: str = Field(description="The lines.")
    first_line: int | None = Field(description="Number of the first line returned.")
    lines: int = Field(description="Number of lines returned.")
    total_lines: int | None = Field(description="Number of lines of the file; null when it is too large to count.")
    next_offset: int | None = Field(description="Where to go on reading; null at the end.")
    truncated_lines: list[int] = Field(default_factory=list[int], description="Numbers of lines cut for their length.")
    size: int = Field(description="Size in bytes.")
    sha256: str | None = Field(description="Hash of the whole file; null when it is too large.")
    mtime: float = Field(description="Modification time, seconds since 1970.")
    replaced_bytes: bool = Field(default=False, description="Whether bytes that are no UTF-8 were shown as �.")


class WriteRequest(EndpointRequest):
    """Arguments of ``remote_write``."""

    file_path: str = Field(min_length=1, description="File to write.")
    content: str = Field(description="The whole new content.")
    mode: str | None = Field(
        default=None,
        pattern=r"^0?[0-7]{3,4}$",
        description="Octal mode. Default: the file's own.",
    )
    create_dirs: bool = Field(default=True, description="Create missing parent directories.")
    expected_sha256: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{64}$", description="Refuse unless the file has this hash now."
    )


class WriteResult(Result):
    """A written file."""

    path: str = Field(description="Real path of the file.")
    bytes: int = Field(description="Bytes written.")
    sha256: str = Field(description="Hash of the new content.")
    created: bool = Field(description="Whether the file is new.")
    previous_sha256: str | None = Field(default=None, description="Hash of the old content, when it was small.")


class ProbeRequest(EndpointRequest):
    """Arguments of ``remote_probe``."""


class ProbeResult(Result):
    """Facts about an endpoint."""

    endpoint: str = Field(description="Name and address.")
    worker: dict[str, Any] = Field(description="The worker: python, pid, user, boot id.")
    timing_ms: dict[str, float] = Field(description="How long connecting and starting the worker took.")
    facts: dict[str, Any] = Field(description="Operating system, tools, disk, NPU devices, locale, proxies.")

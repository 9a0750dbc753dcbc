"""Requests and results of ``remote_read`` and ``remote_write``."""

from pydantic import Field

from vaws_mcp.core.models import Result
from vaws_mcp.endpoint.models import EndpointRequest


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
    truncated_lines: list[int] = Field(
        default_factory=list[int],
        description="Numbers of lines cut for their length; from the end (-1 is the last) when first_line is null.",
    )
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

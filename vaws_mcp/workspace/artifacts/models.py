"""Requests and results of ``artifact_manifest``, ``artifact_push`` and ``artifact_pull``."""

from typing import Literal

from pydantic import BaseModel, Field

from vaws_mcp.core.models import Result
from vaws_mcp.endpoint.models import EndpointRequest

Kind = Literal["file", "folder", "link"]
NO_NUL = r"^[^\x00]*$"


class ManifestRequest(EndpointRequest):
    """Arguments of ``artifact_manifest``."""

    path: str = Field(min_length=1, description="File or directory on the endpoint.")
    checksum: bool = Field(default=True, description="Also give the SHA-256 of each file on this page.")
    offset: int = Field(default=0, ge=0, description="How many entries to skip.")
    limit: int = Field(default=500, ge=1, le=10_000, description="How many entries to return.")


class ManifestEntry(BaseModel):
    """One file, directory or symbolic link."""

    path: str = Field(description="Path relative to the listed one; empty for itself.")
    kind: Kind = Field(description="file, folder or link.")
    mode: str = Field(description="Permission bits, octal.")
    size: int = Field(description="Size in bytes; 0 for folders and links.")
    mtime_ns: int = Field(description="Modification time, nanoseconds since 1970.")
    target: str | None = Field(default=None, description="Where a link points to.")
    sha256: str | None = Field(default=None, description="Hash of a file; null when not asked for or unreadable.")
    escaped: bool = Field(
        default=False, description="Names hold bytes that are no UTF-8: shown as \\xNN, and a backslash as two."
    )


class ManifestResult(Result):
    """What lies at a path, in the order of names."""

    path: str = Field(description="Real path on the endpoint.")
    entries: list[ManifestEntry] = Field(description="One page of entries.")
    total_entries: int = Field(description="Number of all entries.")
    files: int = Field(description="Number of all files.")
    folders: int = Field(description="Number of all directories, with the listed one.")
    links: int = Field(description="Number of all symbolic links.")
    total_bytes: int = Field(description="Size of all files.")
    next_offset: int | None = Field(description="Where to go on; null at the end.")
    unmovable: dict[str, list[str]] = Field(
        description="Names a transfer refuses: special (devices, sockets, pipes), unreadable, unsafe_links."
    )


class _Transfer(EndpointRequest):
    checksum: bool = Field(
        default=False,
        description="Compare also files whose size and time agree by their SHA-256. What is sent is always verified.",
    )
    delete: bool = Field(default=False, description="Remove from the target directory what the source does not have.")
    dry_run: bool = Field(default=False, description="Only say what would be done.")
    wait_s: float | None = Field(
        default=None,
        ge=0,
        description="Answer `running` after so many seconds; the transfer goes on, and the same call waits for it "
        "again. Default: 45 over MCP, no limit on the command line.",
    )


class PushRequest(_Transfer):
    """Arguments of ``artifact_push``."""

    local_path: str = Field(min_length=1, pattern=NO_NUL, description="File or directory on this machine.")
    remote_path: str = Field(
        min_length=1,
        description="What it becomes on the endpoint. A file goes into an existing directory under its own name; a "
        "directory's contents become the contents of this one.",
    )


class PullRequest(_Transfer):
    """Arguments of ``artifact_pull``."""

    remote_path: str = Field(min_length=1, description="File or directory on the endpoint.")
    local_path: str = Field(
        min_length=1,
        pattern=NO_NUL,
        description="What it becomes on this machine. A file goes into an existing directory under its own name; a "
        "directory's contents become the contents of this one.",
    )


class TransferResult(Result):
    """What a transfer did, or would do. While it still runs, only the bytes are known."""

    local_path: str = Field(description="Path on this machine.")
    remote_path: str = Field(description="Path on the endpoint.")
    kind: Literal["file", "tree"] | None = Field(default=None, description="file or tree.")
    files: int | None = Field(default=None, description="Files at the source.")
    folders: int | None = Field(default=None, description="Directories at the source, with the root.")
    links: int | None = Field(default=None, description="Symbolic links at the source.")
    total_bytes: int | None = Field(default=None, description="Size of all files at the source.")
    sent_files: int | None = Field(default=None, description="Files whose bytes were sent.")
    sent_bytes: int | None = Field(default=None, description="Bytes of files that were sent.")
    spared_bytes: int | None = Field(
        default=None, description="Bytes that were compared by hash and not sent: equal, or sent before a cut."
    )
    unchanged: int | None = Field(default=None, description="Files and links that were the same already.")
    deleted: list[str] = Field(default_factory=list[str], description="Names removed at the target.")
    changed: list[str] = Field(
        default_factory=list[str], description="Files that somebody wrote while they were read; may be a mixture."
    )
    created: bool | None = Field(default=None, description="Whether the target directory is new.")
    sha256: str | None = Field(default=None, description="Hash of the file, when one file was sent.")
    escaped: bool = Field(
        default=False, description="Names hold bytes that are no UTF-8: shown as \\xNN, and a backslash as two."
    )

"""Requests and results of looking for files and text."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.core.models import Names, Result
from vaws_mcp.endpoint.models import EndpointRequest

_ESCAPED = (
    "Whether names are escaped: only when one of them is not UTF-8, and then all: \\\\ is a backslash, \\xNN a byte."
)


class SearchRequest(EndpointRequest):
    """What all searches have in common."""

    path: str | None = Field(
        default=None,
        min_length=1,
        description="Where to look. Default: the endpoint's workdir, else the home.",
    )
    escaped: bool = Field(default=False, description="`path` is escaped as in a result that says `escaped`.")
    timeout_ms: int = Field(
        default=30_000, ge=1, le=600_000, description="After this time the answer is what was found until then."
    )


class SearchResult(Result):
    """What all results have in common."""

    path: str = Field(description="Real directory that all other paths are relative to.")
    next_offset: int | None = Field(default=None, description="Offset of the next page; null when this is the last.")
    escaped: bool = Field(default=False, description=_ESCAPED)


class LsRequest(SearchRequest):
    """Arguments of ``remote_ls``."""

    all: bool = Field(default=False, description="Also list names that begin with a dot.")
    limit: int = Field(default=1000, ge=1, le=20_000, description="Number of entries.")
    offset: int = Field(default=0, ge=0, description="Skip so many entries.")


class LsEntry(BaseModel):
    """One entry of a directory."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="File name.")
    kind: str = Field(description="file, directory, symlink, fifo, socket, character_device or block_device.")
    size: int = Field(description="Size in bytes.")
    mtime: float = Field(description="Modification time, seconds since 1970.")
    mode: str = Field(description="Permission bits, octal.")
    target: str | None = Field(default=None, description="Where a symbolic link points to.")


class LsResult(SearchResult):
    """Entries of a directory."""

    entries: list[LsEntry] = Field(description="Entries, sorted by name.")
    total: int = Field(description="Number of entries that could be listed.")
    hidden: int = Field(description="Number of entries left out because their names begin with a dot.")


class TreeRequest(SearchRequest):
    """What searches in a tree have in common."""

    respect_gitignore: bool = Field(default=True, description="Leave out what .gitignore files of a repository name.")
    hidden: bool = Field(default=True, description="Include names that begin with a dot; .git and its like never.")


class TreeResult(SearchResult):
    """What results of a tree have in common."""

    timed_out: bool = Field(default=False, description="Whether time ran out, so that something may be missing.")
    unreadable: int = Field(default=0, description="Number of files and directories that could not be read.")
    problems: list[str] = Field(default_factory=list[str], description="The first few of them, with the reason.")


class GlobRequest(TreeRequest):
    """Arguments of ``remote_glob``."""

    pattern: str = Field(
        min_length=1,
        description="Path from `path`, with * ? [a-z] {a,b}, and ** for any number of directories: **/*.py.",
    )
    limit: int = Field(default=1000, ge=1, le=20_000, description="Number of files.")
    offset: int = Field(default=0, ge=0, description="Skip so many files.")
    sort: Literal["mtime", "path"] = Field(default="mtime", description="Newest first, or by path.")


class GlobResult(TreeResult):
    """Files that match a pattern."""

    files: list[str] = Field(description="Paths of files and symbolic links.")
    total: int = Field(description="Number of files that match.")


class GrepRequest(TreeRequest):
    """Arguments of ``remote_grep``."""

    pattern: str = Field(
        min_length=1,
        description="Regular expression: . [] () | * + ? {m,n} ^ $ \\d \\w \\s \\b, lazy forms; no look-around.",
    )
    output_mode: Literal["files_with_matches", "content", "count"] = Field(
        default="files_with_matches", description="Paths, matching lines, or the number of matching lines by file."
    )
    glob: Names = Field(default=(), description="Only files such as *.py or src/**/*.ts; a list means any of them.")
    exclude: Names = Field(default=(), description="Leave out files and directories such as build or *.min.js.")
    type: str | None = Field(
        default=None, min_length=1, description="Only files of a kind: py, cpp, md, yaml and more."
    )
    fixed_strings: bool = Field(default=False, description="The pattern is plain text.")
    ignore_case: bool = Field(default=False, description="Ignore case.")
    multiline: bool = Field(default=False, description="Let matches span lines; . matches line breaks too.")
    before: int | None = Field(default=None, ge=0, le=1000, description="Lines to show before each match.")
    after: int | None = Field(default=None, ge=0, le=1000, description="Lines to show after each match.")
    context: int = Field(default=0, ge=0, le=1000, description="Lines to show before and after each match.")
    line_numbers: bool = Field(default=True, description="Show line numbers.")
    head_limit: int = Field(default=250, ge=1, le=20_000, description="Number of matching lines, or of files.")
    offset: int = Field(default=0, ge=0, description="Skip so many matching lines, or files.")
    sort: Literal["mtime", "path"] | None = Field(
        default=None, description="Newest files first, or by path. Default: mtime for files_with_matches, else path."
    )
    max_output_bytes: int = Field(default=60_000, ge=1, le=8 << 20, description="End the page after so many bytes.")


class FileLines(BaseModel):
    """Matching lines of one file."""

    model_config = ConfigDict(extra="forbid")

    file: str = Field(description="Path of the file.")
    lines: list[str] = Field(description="`12:text` for a matching line, `13-text` around it, `--` for a gap.")


class FileCount(BaseModel):
    """How many lines of a file match."""

    model_config = ConfigDict(extra="forbid")

    file: str = Field(description="Path of the file.")
    count: int = Field(description="Number of matching lines.")


class GrepResult(TreeResult):
    """What matches. Only the field of the output mode is filled."""

    files: list[str] = Field(default_factory=list[str], description="Files with matches.")
    matches: list[FileLines] = Field(default_factory=list[FileLines], description="Matching lines by file.")
    counts: list[FileCount] = Field(default_factory=list[FileCount], description="Number of matching lines by file.")
    total_files: int = Field(description="Number of files with matches.")
    total_matches: int | None = Field(default=None, description="Number of matching lines, where they were counted.")
    complete: bool = Field(description="Whether everything was searched, so that the totals are exact.")
    cut_lines: int = Field(default=0, description="Number of lines that are shown in part, for their length.")
    replaced_bytes: bool = Field(default=False, description="Whether bytes that are no UTF-8 were shown as �.")
    engine: str = Field(description="rg or python: what searched.")

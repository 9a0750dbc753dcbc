"""Requests and results of the edit operations."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from vaws_mcp.core.models import Result, parsed_objects
from vaws_mcp.endpoint.models import EndpointRequest

SHA256 = r"^[0-9a-f]{64}$"
ESCAPED = "Whether paths are written with \\xNN for bytes that are no UTF-8 and \\\\ for a backslash."


class _FileRequest(EndpointRequest):
    file_path: str = Field(min_length=1, description="File to edit.")
    expected_sha256: str | None = Field(
        default=None,
        pattern=SHA256,
        description="Refuse unless the file has this hash now. Default: its hash when it was last read, if it was.",
    )
    dry_run: bool = Field(default=False, description="Only say what would change.")
    escaped: bool = Field(default=False, description=ESCAPED)


class EditRequest(_FileRequest):
    """Arguments of ``remote_edit``."""

    old_string: str = Field(description="Text to replace, exactly as it stands. Empty to fill a new or empty file.")
    new_string: str = Field(description="Text to put in its place.")
    replace_all: bool = Field(default=False, description="Replace every occurrence instead of the only one.")


class EditStep(BaseModel):
    """One of several edits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    old_string: str = Field(description="Text to replace, exactly as the edits before leave it.")
    new_string: str = Field(description="Text to put in its place.")
    replace_all: bool = Field(default=False, description="Replace every occurrence instead of the only one.")


class MultiEditRequest(_FileRequest):
    """Arguments of ``remote_multi_edit``."""

    edits: Annotated[list[EditStep], BeforeValidator(parsed_objects)] = Field(
        min_length=1, max_length=1000, description="Edits in order."
    )


class EditResult(Result):
    """An edited file."""

    path: str = Field(description="Real path of the file.")
    escaped: bool = Field(default=False, description=ESCAPED)
    created: bool = Field(description="Whether the file is new.")
    changed: bool = Field(description="Whether its contents differ from before.")
    bytes: int = Field(description="Size of the new contents.")
    sha256: str = Field(description="Hash of the new contents.")
    previous_sha256: str | None = Field(description="Hash of the old contents; null for a new file.")
    replacements: list[int] = Field(description="Number of places that each edit replaced.")
    first_changed_line: int | None = Field(description="Number of the first line that differs.")
    crlf: bool = Field(default=False, description="Whether line feeds of the edit were taken as the file's CRLF.")
    diff: str = Field(description="What changed, as a unified diff; bytes that are no UTF-8 are shown as \\xNN.")
    diff_lines_left_out: int = Field(default=0, description="Lines missing at the end of a long diff.")
    dry_run: bool = Field(default=False, description="Whether nothing was written.")


class PatchRequest(EndpointRequest):
    """Arguments of ``remote_apply_patch``."""

    patch: str = Field(
        min_length=1, description="Unified diff (plain or git), or the form that begins with '*** Begin Patch'."
    )
    cwd: str | None = Field(
        default=None, description="Directory that file names are relative to. Default: the endpoint's workdir."
    )
    dry_run: bool = Field(default=False, description="Only check, and say what would change.")


class HunkOffset(BaseModel):
    """A hunk that was found elsewhere than its header says."""

    hunk: int = Field(description="Number of the hunk in its file, from 1.")
    lines: int = Field(description="How many lines below the stated one; negative for above.")


class PatchedFile(BaseModel):
    """What the patch did to one file."""

    path: str = Field(description="Real path of the file.")
    escaped: bool = Field(default=False, description=ESCAPED)
    action: Literal["add", "update", "delete", "move", "copy"] = Field(description="What was done.")
    source: str | None = Field(default=None, description="Where a moved or copied file came from.")
    bytes: int | None = Field(description="Size of the new contents; null when deleted.")
    sha256: str | None = Field(description="Hash of the new contents; null when deleted.")
    previous_sha256: str | None = Field(description="Hash of the old contents; null when added.")
    executable: bool | None = Field(default=None, description="The execute bits, when the patch sets them.")
    hunks: int = Field(description="Number of hunks.")
    offsets: list[HunkOffset] = Field(
        default_factory=list[HunkOffset], description="Hunks found at the only other place with the same lines."
    )
    crlf: bool = Field(default=False, description="Whether line feeds of the patch were taken as the file's CRLF.")


class PatchResult(Result):
    """The files of an applied patch, in its order."""

    cwd: str = Field(description="Real path of the directory that names are relative to.")
    files: list[PatchedFile] = Field(description="What was done to each file.")
    dry_run: bool = Field(default=False, description="Whether nothing was written.")

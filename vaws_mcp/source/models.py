"""Request and result of ``code_sync``."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.core.models import Result
from vaws_mcp.endpoint.models import EndpointRequest


class CodeSyncRequest(EndpointRequest):
    """Arguments of ``code_sync``."""

    repo: Literal["vllm_ascend", "vllm", "both"] = Field(
        default="vllm_ascend", description="Which of the task's bound trees to bring to the endpoint."
    )
    keep_remote: bool = Field(
        default=False,
        description="Move uncommitted work of the endpoint's tree to refs/vaws/kept/<time> there. Default: refuse it.",
    )
    plan: bool = Field(default=False, description="Only say what would be done.")


class Part(BaseModel):
    """A part of a result."""

    model_config = ConfigDict(extra="forbid")


class Kept(Part):
    """Work of the endpoint that was moved to a ref in its repository."""

    path: str = Field(description="Submodule that it was in; empty for the tree itself.")
    ref: str = Field(description="Ref that keeps it; git stash apply REF brings it back.")
    commit: str = Field(description="Commit that holds it.")


class TreeSync(Part):
    """One tree, on both sides."""

    status: str = Field(description="synced, unchanged or planned.")
    repo: str = Field(description="Tree on the endpoint.")
    source: str = Field(description="Local tree.")
    local_tree: str = Field(description="Hash of the local tree as it stands on disk, submodules included.")
    remote_tree: str = Field(description="Hash of the endpoint's tree as it stands on disk.")
    equal: bool = Field(description="Whether both hashes are equal: the proof.")
    commit: str = Field(description="Commit that stands for the local tree; HEAD itself when nothing is uncommitted.")
    local_head: str = Field(description="Local HEAD.")
    local_changes: int = Field(description="Number of local files that differ from HEAD.")
    remote_head_before: str = Field(description="HEAD of the endpoint's tree before.")
    remote_branch_before: str | None = Field(description="Its branch before; null when detached.")
    remote_head: str = Field(description="HEAD of the endpoint's tree now.")
    remote_changes: list[str] = Field(description="First files of the endpoint's tree that differed from its HEAD.")
    changed: int | None = Field(
        description="Number of files that were changed on the endpoint, or would be; null when that cannot be foreseen."
    )
    changed_files: list[str] = Field(description="The first of them, each after A, M, D or T.")
    bytes_sent: int = Field(description="Size of the packs that travelled.")
    lacking: list[str] = Field(description="Repositories (. is the tree itself) that lacked objects.")
    kept: list[Kept] = Field(description="Work of the endpoint that was moved out of the way.")
    native_inputs_changed: bool = Field(
        description="Whether inputs of the native build were changed by a synchronisation and not built since."
    )
    native_inputs: list[str] = Field(description="Those inputs.")
    rebuild: list[str] = Field(description="What must be rebuilt for them. It is never done by itself.")


class CodeSyncResult(Result):
    """What ``code_sync`` did."""

    endpoint: str = Field(description="Address of the endpoint.")
    trees: list[TreeSync] = Field(description="One entry per tree.")
    equal: bool = Field(description="Whether all trees are equal on both sides.")
    native_inputs_changed: bool = Field(description="Whether any tree has native inputs that were not built since.")

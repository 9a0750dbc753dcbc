"""What a task keeps on disk."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.store.records import Record


class Sources(BaseModel):
    """Local working trees bound to a task."""

    model_config = ConfigDict(extra="forbid")

    vllm_ascend: str | None = Field(default=None, description="Local git tree of vllm-ascend.")
    vllm: str | None = Field(default=None, description="Local git tree of vLLM.")


class ContextRecord(Record):
    """``context.json``: what a caller hands over to say which task it works on."""

    schema_: Literal["vaws.context.v1"] = Field(default="vaws.context.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    task_id: str
    endpoint: str | None = None
    sources: Sources = Field(default_factory=Sources)


class TaskRecord(Record):
    """``task.json``: the life of a task."""

    schema_: Literal["vaws.task.v1"] = Field(default="vaws.task.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    task_id: str
    slug: str
    state: Literal["open", "finished"] = "open"
    created_at: str
    finished_at: str | None = None

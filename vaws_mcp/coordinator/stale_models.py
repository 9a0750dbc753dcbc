"""Request and result of ``stale_cleanup``."""

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.core.models import Result
from vaws_mcp.endpoint.models import EndpointRequest


class StaleRequest(EndpointRequest):
    """Arguments of ``stale_cleanup``."""

    apply: bool = Field(default=False, description="End the stale processes. Without it they are only listed.")


class StaleProcess(BaseModel):
    """A process with a title of vLLM, and the judgement on it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    pid: int = Field(description="Process id on the endpoint.")
    ppid: int | None = Field(default=None, description="Its parent.")
    uid: int | None = Field(default=None, description="Its user.")
    start_ticks: int = Field(description="When it began, in clock ticks since boot; names it together with the pid.")
    comm: str = Field(description="The kernel's name of it.")
    title: str = Field(description="Its command line as ps shows it.")
    test: int | None = Field(default=None, description="Number of the first test it did not pass; null when stale.")
    reason: str | None = Field(default=None, description="Why it is stale, or why it was spared.")


class SharedMemory(BaseModel):
    """A file in /dev/shm that no process uses any more, as far as can be seen."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    path: str = Field(description="The file.")
    bytes: int = Field(description="Its size.")
    removed: bool = Field(description="Whether it was removed now.")
    why: str | None = Field(default=None, description="Why it was left.")


class StaleReport(BaseModel):
    """What a cleanup found and did on one endpoint."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    applied: bool = Field(description="False for a dry run.")
    looked_at: int = Field(description="How many living processes were judged.")
    matched: list[StaleProcess] = Field(description="Stale processes: all five tests hold.")
    spared: list[StaleProcess] = Field(description="Other processes with a title of vLLM, each with the reason.")
    killed: list[StaleProcess] = Field(description="Stale processes that have ended now.")
    surviving: list[StaleProcess] = Field(description="Stale processes that could not be ended.")
    shared_memory: list[SharedMemory] = Field(description="Orphaned /dev/shm/psm_* files.")


class StaleResult(Result):
    """What is stale on an endpoint."""

    endpoint: str = Field(description="Name and address.")
    applied: bool = Field(description="False for a dry run: nothing was touched.")
    looked_at: int = Field(description="How many living processes were judged.")
    matched: list[StaleProcess] = Field(description="Stale processes: all five tests hold.")
    spared: list[StaleProcess] = Field(description="Other processes with a title of vLLM, each with the reason.")
    killed: list[StaleProcess] = Field(description="Stale processes that have ended now.")
    surviving: list[StaleProcess] = Field(description="Stale processes that could not be ended; always empty here.")
    shared_memory: list[SharedMemory] = Field(
        description="Orphaned /dev/shm/psm_* files; only those of processes ended now are removed."
    )

"""Requests and results of ``runtime_check`` and ``runtime_prepare``."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from vaws_mcp.core.models import Names, Result
from vaws_mcp.endpoint.models import EndpointRequest
from vaws_mcp.presets.runtime.compare import Item
from vaws_mcp.presets.runtime.plan import Step
from vaws_mcp.runs.models import RunRequest

# A value that cannot be taken for an option of pip.
ProfileName = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^-\x00][^\x00]*$")]


class RuntimeCheckRequest(EndpointRequest):
    """Arguments of ``runtime_check``."""

    profile: ProfileName | None = Field(
        default=None, description="Name of a shipped profile, or path of a JSON file. Default: all shipped profiles."
    )
    refresh_env: bool = Field(default=False, description="Source the endpoint's environment scripts again.")


class RuntimeCheckResult(Result):
    """How far an endpoint is from a profile."""

    endpoint: str = Field(description="Name and address.")
    profile: str | None = Field(description="Profile that was asked for, else the one that matches wholly.")
    verdict: Literal["passed", "failed"] | None = Field(
        description="passed: all of the profile matches; failed: not all does; null when no profile was asked for."
    )
    items: list[Item] = Field(description="Each version of the profile, or of the nearest one, and what was found.")
    nearest: str | None = Field(description="Profile with the largest share of matches.")
    profiles: list[dict[str, Any]] = Field(description="name, matched, total, whole of each profile compared.")
    versions: dict[str, str | None] = Field(description="Every version found; null when missing or unreadable.")
    environment: dict[str, Any] = Field(description="Scripts of the commands' environment, cxx_abi and its origin.")


class RuntimePrepareRequest(EndpointRequest, RunRequest):
    """Arguments of ``runtime_prepare``."""

    profile: ProfileName = Field(description="Name of a shipped profile, or path of a JSON file.")
    plan: bool = Field(default=False, description="Only show every command and path; this is the default.")
    apply: bool = Field(default=False, description="Carry the commands out.")
    rebuild: bool = Field(default=False, description="Build vllm-ascend anew although all versions match.")
    find_links: Names = Field(default=(), description="Directories or pages with wheels for pip, on the endpoint.")
    offline: bool = Field(
        default=False, description="Let pip ask no index: find_links and the profile's wheels are all there is."
    )
    remote: Names = Field(
        default=(), description="Accept a tree that has one of these remotes, instead of the profile's."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.plan and self.apply:
            raise ValueError("plan and apply exclude each other")
        if any(word.startswith("-") for word in (*self.find_links, *self.remote)):
            raise ValueError("find_links and remote take no options")
        return self


class RuntimePrepareResult(Result):
    """What was planned or done."""

    endpoint: str = Field(description="Name and address.")
    profile: str = Field(description="Name of the profile.")
    steps: list[Step] = Field(description="The commands, in order.")
    obstacles: list[str] = Field(
        default_factory=list[str], description="What forbids carrying it out; empty after it was carried out."
    )
    items: list[Item] = Field(description="The comparison with the profile: before a plan, after the work.")
    logs: list[str] = Field(default_factory=list[str], description="File with the output of each command, here.")

"""What is known about an endpoint, and how a request names one."""

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from vaws_mcp.core.models import Request

Filled = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00-\x1f]+$")]
# Names and ids of docker and podman: none can be taken for an option.
ContainerName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


class EndpointConfig(BaseModel):
    """One entry of ``endpoints.toml``, or what a destination such as ``root@host:2222`` says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Filled = Field(description="Name of the endpoint; `local` is this machine.")
    host: Filled | None = Field(default=None, description="Host name, address or alias of ~/.ssh/config.")
    port: int | None = Field(default=None, ge=1, le=65535, description="SSH port.")
    user: Filled | None = Field(default=None, description="SSH user.")
    identity_file: Filled | None = Field(default=None, description="Private key file.")
    jump: Filled | None = Field(default=None, description="Jump hosts, [user@]host[:port], comma separated.")
    accept_new: bool = Field(default=False, description="Pin an unknown host key at the first connection.")
    known_hosts: Filled | None = Field(default=None, description="A further file of known host keys.")
    container: ContainerName | None = Field(default=None, description="Container on the host that everything runs in.")
    runtime: Literal["docker", "podman"] = Field(default="docker", description="Program that enters the container.")
    python: Filled | None = Field(default=None, description="Python (3.8 or newer) that runs the worker.")
    venv: Filled | None = Field(default=None, description="Virtual environment that commands run in.")
    env_files: tuple[Filled, ...] = Field(default=(), description="Scripts to source before commands, in order.")
    cann: bool = Field(
        default=True, description="Find and source the scripts of an installed CANN when there are no env_files."
    )
    cxx_abi: Literal[0, 1] | None = Field(
        default=None, description="C++ ABI that ATB is set up for. Default: the one of the installed torch."
    )
    vllm_repo: Filled = Field(default="/vllm-workspace/vllm", description="Git tree of vLLM.")
    vllm_ascend_repo: Filled = Field(default="/vllm-workspace/vllm-ascend", description="Git tree of vllm-ascend.")
    workdir: Filled | None = Field(default=None, description="Directory that commands start in.")
    root: Filled | None = Field(default=None, description="Directory that file operations are confined to.")
    read_only: bool = Field(default=False, description="Refuse every operation that could change something.")
    deny_commands: tuple[Filled, ...] = Field(
        default=(), description="Regular expressions; a shell command that one is found in is refused."
    )
    deny_paths: tuple[Filled, ...] = Field(
        default=(),
        description="Globs of files and directories that file operations refuse: with a slash the whole path (`*` also "
        "matches slashes), without one a name at any level.",
    )
    lease_dir: Filled = Field(default="/tmp/vaws-leases", description="Shared directory of device leases.")  # noqa: S108
    model: Filled | None = Field(default=None, description="Default model path.")

    @field_validator("vllm_repo", "vllm_ascend_repo", "lease_dir")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not PurePosixPath(value).is_absolute():
            raise ValueError("must be an absolute path")
        return value

    @field_validator("deny_commands")
    @classmethod
    def _expressions(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            try:
                re.compile(value)
            except re.error as error:
                raise ValueError(f"{value!r} is no regular expression: {error}") from None
        return values

    @property
    def is_local(self) -> bool:
        """Whether commands run on this machine without SSH."""
        return self.host is None

    @property
    def address(self) -> str:
        """How to name the endpoint to a person: ``sim (root@127.0.0.1:2222)``."""
        if self.host is None:
            place = "this machine"
        else:
            place = f"{self.user + '@' if self.user else ''}{self.host}{f':{self.port}' if self.port else ''}"
        inside = f", container {self.container}" if self.container else ""
        return f"{self.name} ({place}{inside})" if self.name != place or inside else place


class EndpointRequest(Request):
    """Mixed into the request of every operation that reaches an endpoint."""

    endpoint: str | None = Field(
        default=None,
        description="Endpoint: a name in endpoints.toml, `local`, or [user@]host[:port]. Default: the task's endpoint.",
    )
    container: ContainerName | None = Field(
        default=None, description="Run inside this container on the endpoint's host."
    )
    identity_file: str | None = Field(
        default=None, min_length=1, description="Private key for a [user@]host[:port] endpoint."
    )
    jump: str | None = Field(
        default=None, min_length=1, description="Jump hosts for the connection: [user@]host[:port], comma separated."
    )
    accept_new: bool = Field(default=False, description="Pin the host key if the host is not known yet.")
    context_file: str | None = Field(
        default=None, description="Path of the task's context.json. Default: VAWS_CONTEXT_FILE."
    )

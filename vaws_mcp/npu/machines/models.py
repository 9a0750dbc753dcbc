"""Requests and results of the machine operations."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.core.models import Names, Request, Result
from vaws_mcp.endpoint.models import ContainerName, EndpointConfig, EndpointRequest, Filled

Status = Literal["ready", "needs_input", "needs_repair", "blocked"]
State = Literal["ok", "warning", "absent", "unknown", "failed", "skipped"]
CHECKS = ("reachability", "host_key", "container", "python", "npu", "cann", "vllm", "lease_scope")


class MachineCheck(BaseModel):
    """What one check found."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    check: str = Field(description="reachability, host_key, container, python, npu, cann, vllm or lease_scope.")
    state: State = Field(description="ok, warning, absent (and not needed), unknown, failed or skipped.")
    message: str = Field(description="What was found.")
    next: str | None = Field(default=None, description="What to do; null when nothing is to be done.")
    code: str | None = Field(default=None, description="Error code of a failed check.")
    status: Status = Field(default="ready", description="What this check makes of the machine.")
    facts: dict[str, Any] = Field(default_factory=dict[str, Any], description="Versions, counts and names.")


def _same(name: str) -> str:
    """Return the description of the endpoint's field."""
    return EndpointConfig.model_fields[name].description or ""


class MachineAddRequest(Request):
    """Arguments of ``machine_add``. Fields that are not given keep their defaults."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="Name of the machine: letters, digits, dots and dashes."
    )
    host: Filled | None = Field(
        default=None, description="[user@]host[:port] or an alias of ~/.ssh/config; without it this machine."
    )
    port: int | None = Field(default=None, ge=1, le=65535, description=_same("port"))
    user: Filled | None = Field(default=None, description=_same("user"))
    identity_file: Filled | None = Field(default=None, description=_same("identity_file"))
    jump: Filled | None = Field(default=None, description=_same("jump"))
    known_hosts: Filled | None = Field(default=None, description=_same("known_hosts"))
    container: ContainerName | None = Field(default=None, description=_same("container"))
    runtime: Literal["docker", "podman"] | None = Field(default=None, description=_same("runtime"))
    python: Filled | None = Field(default=None, description=_same("python"))
    venv: Filled | None = Field(default=None, description=_same("venv"))
    env_files: Names = Field(default=(), description=_same("env_files"))
    vllm_repo: Filled | None = Field(default=None, description=_same("vllm_repo"))
    vllm_ascend_repo: Filled | None = Field(default=None, description=_same("vllm_ascend_repo"))
    workdir: Filled | None = Field(default=None, description=_same("workdir"))
    root: Filled | None = Field(default=None, description=_same("root"))
    read_only: bool = Field(default=False, description=_same("read_only"))
    deny_commands: Names = Field(default=(), description=_same("deny_commands"))
    deny_paths: Names = Field(default=(), description=_same("deny_paths"))
    lease_dir: Filled | None = Field(default=None, description=_same("lease_dir"))
    model: Filled | None = Field(default=None, description=_same("model"))
    replace: bool = Field(default=False, description="Replace an entry of this name that says something else.")


class MachineVerifyRequest(EndpointRequest):
    """Arguments of ``machine_verify``."""


class MachineListRequest(Request):
    """Arguments of ``machine_list``."""


class MachineRemoveRequest(Request):
    """Arguments of ``machine_remove``."""

    name: str = Field(description="Name of the machine in endpoints.toml.")
    force: bool = Field(default=False, description="Remove it although tasks use it.")


class MachineResult(Result):
    """A machine and what was found about it."""

    machine: str = Field(description="Name of the machine.")
    address: str = Field(description="Name and address.")
    host_key: str | None = Field(default=None, description="Fingerprint of the host key; null without SSH.")
    checks: list[MachineCheck] = Field(description="All checks, each with what to do next.")


class MachineAddResult(MachineResult):
    """A machine that was added."""

    saved: bool = Field(description="Whether endpoints.toml has the entry now.")
    pinned: bool = Field(default=False, description="Whether the host key was unknown before and is pinned now.")
    entry: str = Field(description="The entry as it stands in endpoints.toml.")


class Machine(BaseModel):
    """One entry of the list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    machine: str = Field(description="Name of the machine.")
    address: str = Field(description="Name and address.")
    container: str | None = Field(description="Container that everything runs in.")
    read_only: bool = Field(description="Whether operations that change something are refused.")
    used_by: list[str] = Field(description="Open tasks that use it.")
    settings: dict[str, Any] = Field(description="Everything its entry sets.")


class MachineListResult(Result):
    """The machines of this state directory."""

    machines: list[Machine] = Field(description="All machines, `local` among them.")
    file: str = Field(description="Path of endpoints.toml.")
    unreadable: list[str] = Field(default_factory=list[str], description="Records of tasks that could not be read.")


class MachineRemoveResult(Result):
    """A machine that was removed."""

    machine: str = Field(description="Name of the machine.")
    entry: str = Field(description="The entry that was removed, to put it back if that was a mistake.")
    used_by: list[str] = Field(default_factory=list[str], description="Open tasks that used it.")

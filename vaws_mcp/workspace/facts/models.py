"""Request and result of ``context_snapshot``."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from vaws_mcp.core.models import Result
from vaws_mcp.endpoint.models import EndpointRequest

Facts = dict[str, Any]


class Phase(BaseModel):
    """One step of reaching an endpoint."""

    model_config = ConfigDict(extra="forbid")

    phase: str = Field(description="resolve, tcp, ssh, container, worker, first_round_trip or round_trip.")
    ms: float = Field(description="How long it took.")
    note: str | None = Field(default=None, description="What was reached, or what went wrong.")


class SnapshotRequest(EndpointRequest):
    """Arguments of ``context_snapshot``."""

    refresh_env: bool = Field(default=False, description="Source the endpoint's env_files again.")


class SnapshotResult(Result):
    """Everything that decides what a service on this endpoint runs with."""

    endpoint: str = Field(description="Name and address.")
    system: Facts = Field(description="os_release, kernel, machine, cpus, memory_total_bytes, container, user.")
    python: Facts | None = Field(description="The interpreter that commands use: version, executable.")
    packages: dict[str, Facts | None] = Field(
        description="torch, torch-npu, triton-ascend, vllm, vllm-ascend, transformers: version, path, editable (tree)."
    )
    repos: dict[str, Facts | None] = Field(description="vllm, vllm_ascend: path, commit, branch, dirty, changes.")
    cann: dict[str, Facts | None] = Field(description="driver, toolkit, operators, nnal: version and path of its file.")
    npu: Facts = Field(description="devices (/dev/davinci*), manager, npu_smi (path).")
    tools: dict[str, str | None] = Field(description="Path of each program; null when it is absent.")
    disk_free_bytes: dict[str, int | None] = Field(description="Free bytes of the file systems of home and tmp.")
    locale: str | None = Field(description="Locale of commands; null when none is set.")
    preferred_encoding: str | None = Field(description="Encoding that Python takes for text there.")
    proxies: dict[str, str] = Field(description="Proxy variables, without user names and passwords.")
    hostname: Facts = Field(description="name, and in_hosts: whether /etc/hosts has it (gloo needs it).")


class ProbeRequest(EndpointRequest):
    """Arguments of ``remote_probe``."""

    diagnose: bool = Field(default=False, description="Connect once more and time each phase of it.")


class ProbeResult(Result):
    """Facts about an endpoint."""

    endpoint: str = Field(description="Name and address.")
    worker: dict[str, Any] = Field(description="The worker: python, pid, user, boot id.")
    timing_ms: dict[str, float] = Field(description="How long connecting and starting the worker took.")
    facts: dict[str, Any] = Field(description="Operating system, tools, disk, NPU devices, CANN, locale, proxies.")
    diagnosis: list[Phase] = Field(default_factory=list[Phase], description="The phases of connecting (diagnose).")

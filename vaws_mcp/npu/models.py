"""Request and result of ``npu_probe``."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from vaws_mcp.core.models import Result
from vaws_mcp.endpoint.models import EndpointRequest

Kind = Literal["info", "map", "list", "health", "usages", "proc-mem", "memory"]
_OPTIONS = {"m": "map", "l": "list"}


def _kind(value: Any) -> Any:
    """Accept the option of npu-smi (``-m``, ``-l``) in place of the word."""
    word = value.lstrip("-") if isinstance(value, str) else value
    return _OPTIONS.get(word, word)


class ProbeRequest(EndpointRequest):
    """Arguments of ``npu_probe``."""

    from_file: str | None = Field(
        default=None,
        min_length=1,
        description="Read saved output of npu-smi from this local file instead of asking an endpoint; - is stdin.",
    )
    kind: Annotated[Kind, BeforeValidator(_kind)] | None = Field(
        default=None,
        description="Which command made the text of from_file. Default: seen from the text.",
    )


class Holder(BaseModel):
    """A process on a device. What cannot be seen from where the probe ran is null."""

    model_config = ConfigDict(extra="forbid")

    pid: int = Field(description="Pid that npu-smi prints, which is the host's.")
    local_pid: int | None = Field(default=None, description="The process where the probe ran, if it is known there.")
    name: str | None = Field(default=None, description="Name of the process, cut by npu-smi.")
    memory_mb: int | None = Field(default=None, description="Device memory of the process.")
    user: str | None = Field(default=None, description="User it runs as.")
    container: str | None = Field(default=None, description="Beginning of the id of its container.")
    execution_id: str | None = Field(default=None, description="Set when the process belongs to one of our executions.")


class DeviceView(BaseModel):
    """A chip and whether it is free."""

    model_config = ConfigDict(extra="forbid")

    npu: int = Field(description="NPU id, as `npu-smi -i` takes it.")
    chip: int | None = Field(description="Chip id within the NPU.")
    logic: int | None = Field(description="Logic id, as ASCEND_RT_VISIBLE_DEVICES takes it.")
    phy: int | None = Field(description="Physical id, the number of /dev/davinciN.")
    lease_name: str | None = Field(
        default=None, description="Name of the chip in leases: its bus id, or npu<id>c<chip>."
    )
    name: str | None = Field(description="Product name.")
    health: str | None = Field(description="OK, Warning, Alarm, Critical or UNKNOWN.")
    power_w: float | None = Field(description="Power.")
    temp_c: int | None = Field(description="Temperature.")
    bus_id: str | None = Field(description="PCI bus id, the same on the host and in every container.")
    util_pct: int | None = Field(description="Utilisation of the AI cores.")
    hbm_used_mb: int | None = Field(description="Memory in use.")
    hbm_total_mb: int | None = Field(description="Memory of the chip.")
    pids: list[int] = Field(description="Pids of the processes on it, of the host.")
    occupancy: str = Field(description="free, occupied, unhealthy or unknown. Only free devices may be used.")
    reason: str = Field(description="Why, in one sentence.")
    holders: list[Holder] = Field(default_factory=list[Holder], description="The processes on it.")


class ProbeResult(Result):
    """The devices, or what a saved text says. Fields that the kind of text does not have are null."""

    kind: str | None = Field(default=None, description="Which command of npu-smi the text came from.")
    endpoint: str | None = Field(default=None, description="Name and address of the endpoint; null for a file.")
    probed_on: str | None = Field(
        default=None, description="endpoint, or host when npu-smi cannot be used in the endpoint's container."
    )
    layout: str | None = Field(default=None, description="classic, a3, 310p or a5.")
    driver: str | None = Field(default=None, description="Version of the driver.")
    process_table: str | None = Field(default=None, description="complete, maybe_truncated or missing.")
    devices: list[DeviceView] | None = Field(default=None, description="All devices.")
    free: list[dict[str, Any]] | None = Field(default=None, description="The free ones: logic, npu, chip, lease_name.")
    busy: list[dict[str, Any]] | None = Field(default=None, description="The occupied ones, with reason and holders.")
    unhealthy: list[dict[str, Any]] | None = Field(
        default=None, description="Those whose health is not OK, with health and reason; they may be busy too."
    )
    unknown: list[dict[str, Any]] | None = Field(
        default=None, description="Those that nothing is known to be free of, with the reason."
    )
    map: list[dict[str, Any]] | None = Field(default=None, description="Logic id to npu, chip, physical id, bus id.")
    processes: list[dict[str, Any]] | None = Field(default=None, description="The rows of the process table.")
    maybe_truncated: bool | None = Field(
        default=None, description="Whether a chip has as many processes as npu-smi prints at most."
    )
    total: int | None = Field(default=None, description="Number of cards (kind list).")
    npus: list[dict[str, Any]] | None = Field(default=None, description="Cards with their chips (kind list).")
    npu: int | None = Field(default=None, description="The card that was asked about (-t).")
    chips: dict[str, Any] | None = Field(default=None, description="What -t says, by chip id.")
    health: str | None = Field(default=None, description="Worst health of the chips (kind health).")
    error_codes: list[str] | None = Field(default=None, description="Their error codes (kind health).")
    hbm_total_mb: int | None = Field(default=None, description="Memory of the first chip (kind memory).")

"""Failures of the machine operations."""

from typing import Any

from vaws_mcp.core.failures import Blocked, Failure, Layer, NeedsInput, Refused
from vaws_mcp.npu.machines.models import MachineCheck, Status

_LAYERS: dict[str, Layer] = {"reachability": "transport", "host_key": "transport", "npu": "device"}


class NeedsRepair(Failure):
    """The machine is there, and something on it must be put right first."""

    status = "needs_repair"


_KINDS: dict[Status, type[Failure]] = {
    "needs_input": NeedsInput,
    "needs_repair": NeedsRepair,
    "blocked": Blocked,
    "ready": Failure,
}


def not_ready(check: MachineCheck, status: Status, cause: Failure | None, fields: dict[str, Any]) -> Failure:
    """The machine is not ready, because of ``check``; ``fields`` keep everything that was found."""
    known = cause is not None and cause.code == check.code
    return _KINDS[status](
        check.code or "not_ready",
        check.message,
        layer=cause.layer if cause is not None and known else _LAYERS.get(check.check, "remote_env"),
        hint=check.next,
        retry_safe=True,
        phase=check.check,
        fields=fields,
    )


def unknown_machine(name: str, known: list[str]) -> Refused:
    """``endpoints.toml`` has no such entry."""
    listed = ", ".join(known) or "none"
    return Refused("machine_unknown", f"there is no machine {name!r}; known: {listed}", hint="See machine_list.")


def machine_in_use(name: str, tasks: list[str]) -> Blocked:
    """Open tasks would lose their endpoint."""
    return Blocked(
        "machine_in_use",
        f"machine {name} is used by {', '.join(tasks)}",
        layer="local",
        hint="Finish these tasks with task_finish, or remove it nevertheless with force=true (--force).",
        retry_safe=True,
    )

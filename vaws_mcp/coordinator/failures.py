"""Failures of managed executions. Codes: see each function."""

from typing import Any

from vaws_mcp.core.failures import Blocked, Failure, NeedsInput, Refused

NOT_NOW = ("tree_locked", "port_in_use", "device_unhealthy")
"""Reasons of a supervisor for not starting that may be gone later."""


def reserved_env(names: list[str]) -> Refused:
    """The caller wants to set variables that only we set."""
    return Refused(
        "reserved_env",
        f"env may not name {', '.join(names)}: variables that begin with VAWS_ are set by the supervisor",
        hint="Leave them out; the execution's id and devices are in its environment anyway.",
    )


def devices_conflict(why: str) -> Refused:
    """Two parts of a request ask for different devices."""
    return Refused("devices_conflict", why, hint="Give devices, or npu_count, or ASCEND_RT_VISIBLE_DEVICES in env.")


def no_execution(named: str) -> NeedsInput:
    """There is no record of this execution or service."""
    return NeedsInput(
        "execution_unknown",
        f"there is no {named} among the records",
        hint="vaws_execution without an id lists the executions of a task; is the context_file the right one?",
    )


def foreign_execution(execution_id: str, owner: str, asking: str) -> Refused:
    """An execution belongs to another task than the one that asks."""
    return Refused(
        "execution_foreign",
        f"execution {execution_id} belongs to task {owner}, not to {asking}",
        hint="Only its own task may stop or use it: pass that task's context_file.",
    )


def service_differs(name: str, execution_id: str, digests: tuple[str | None, str], parts: list[str]) -> Blocked:
    """A service of this name runs with another spec."""
    there, asked = digests
    what = ", ".join(parts) or "its spec is not recorded"
    return Blocked(
        "service_differs",
        f"service {name!r} runs as {execution_id} with another spec ({there or 'unknown'}, asked for {asked}): {what}",
        layer="caller",
        hint="Pass restart=true to replace it, another service name, or the same arguments as before.",
        retry_safe=True,
        fields={"execution_id": execution_id, "service": name, "differs": parts},
    )


def service_unsupervised(name: str, execution_id: str) -> Blocked:
    """Processes of a service live on, but its supervisor, which held its devices, is gone."""
    return Blocked(
        "service_unsupervised",
        f"the supervisor of service {name!r} ({execution_id}) is gone, and with it the hold on its devices; "
        "its processes live on",
        layer="remote_workload",
        hint="Pass restart=true, or end it with vaws_execution action=stop.",
        retry_safe=True,
        fields={"execution_id": execution_id, "service": name},
    )


def preflight_failed(why: str, shown: dict[str, Any]) -> Failure:
    """The preflight command did not succeed, so nothing was submitted."""
    return Failure(
        "preflight_failed",
        f"the preflight command did not succeed ({why}); nothing was submitted",
        layer="remote_workload",
        hint="Its output is in preflight.",
        retry_safe=True,
        phase="preflight",
        fields={"preflight": shown},
    )


def start_refused(message: str, why: dict[str, Any] | None, fields: dict[str, Any]) -> Failure:
    """The supervisor did not start an execution; ``why`` are its own code, message and hint, if it has any."""
    why = why or {}
    code = str(why.get("code") or "start_failed")
    kind = Blocked if code in NOT_NOW else Failure
    return kind(
        code,
        message,
        layer="device" if code.startswith("device") else "remote_env",
        hint=why.get("hint") or "Correct the command, cwd, devices, ports or trees, and call again.",
        retry_safe=code in NOT_NOW,
        phase="start",
        fields=fields,
    )


def reservation_blocked(execution_id: str, why: dict[str, Any]) -> Blocked:
    """Nothing can be granted to a reservation until somebody changes something on the endpoint."""
    return Blocked(
        str(why.get("code") or "blocked"),
        f"nothing can be granted: {why.get('message')}",
        layer="device",
        hint=why.get("hint"),
        retry_safe=True,
        phase="reservation",
        fields={"execution_id": execution_id},
    )


def reservation_lost(execution_id: str, why: str) -> Failure:
    """A reservation ended while it was needed."""
    return Failure(
        "reservation_lost",
        f"reservation {execution_id} ended while it was in use: {why}",
        layer="remote_workload",
        hint="What ran in it may have lost its devices to others; start the run again.",
        retry_safe=True,
        phase="reservation",
        fields={"execution_id": execution_id},
    )

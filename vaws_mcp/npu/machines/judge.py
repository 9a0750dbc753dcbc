"""From answers of the worker to checks. Pure."""

from collections.abc import Mapping
from typing import Any

from vaws_mcp.core.failures import Failure
from vaws_mcp.npu.machines.models import MachineCheck, Status

Answer = dict[str, Any] | Failure

ACCESS: Mapping[str, Status] = {
    "port_closed": "blocked",
    "connect_timeout": "blocked",
    "connect_failed": "blocked",
    "host_unresolved": "needs_input",
    "auth_failed": "needs_input",
    "identity_unusable": "needs_input",
    "ssh_config_invalid": "needs_input",
}
HOST_KEY: Mapping[str, Status] = {
    "host_key_unknown": "needs_input",
    "host_key_changed": "blocked",
    "host_key_revoked": "blocked",
}
PLACE: Mapping[str, Status] = {
    "container_unusable": "needs_repair",
    "python_missing": "needs_repair",
    "worker_failed": "needs_repair",
}
_NO_NPU = "no NPU is seen: the machine is for CPU work"


def from_failure(check: str, failure: Failure, statuses: Mapping[str, Status]) -> MachineCheck:
    """Return the failed check that a failure stands for."""
    return MachineCheck(
        check=check,
        state="failed",
        message=failure.message,
        next=failure.hint,
        code=failure.code,
        status=statuses[failure.code],
    )


def judge_npu(snapshot: Answer, probe: Answer) -> MachineCheck:
    """Judge the devices. A machine that has none, and no sign of any, is fit for CPU work."""
    if isinstance(snapshot, Failure):
        return _unknown("npu", snapshot)
    devices: list[dict[str, Any]] = snapshot.get("devices") or []
    error = snapshot.get("error")
    if not snapshot.get("ok"):
        signs = isinstance(probe, dict) and (probe.get("npu_devices") or probe.get("npu_manager"))
        code = error["code"] if error else "probe_failed"
        if code in ("npu_smi_missing", "no_npu") and not signs:
            return MachineCheck(check="npu", state="absent", message=_NO_NPU, code=code)
        message = error["message"] if error else "npu-smi gave no usable answer"
        hint = error["hint"] if error else "Run npu-smi info there."
        return _repair("npu", code, f"the devices cannot be probed: {message}", hint)
    counts: dict[str, int] = {}
    for device in devices:
        counts[device["occupancy"]] = counts.get(device["occupancy"], 0) + 1
    facts = {"devices": len(devices), "driver": snapshot.get("driver"), **counts}
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    message = f"{len(devices)} devices ({said})"
    sick = [device for device in devices if device["occupancy"] == "unhealthy"]
    if sick:
        names = ", ".join(str(device.get("lease_name") or device.get("npu")) for device in sick)
        return _repair("npu", "device_unhealthy", f"{message}; unhealthy: {names}", "Reset or replace these.", facts)
    if not devices:
        return MachineCheck(check="npu", state="absent", message=_NO_NPU, code="no_npu")
    return MachineCheck(check="npu", state="ok", message=message, facts=facts)


def judge_cann(context: Answer, *, needed: bool) -> MachineCheck:
    """Judge the versions of CANN; without devices it may be absent."""
    if isinstance(context, Failure):
        return _unknown("cann", context)
    parts: dict[str, Any] = context["cann"]
    toolkit = parts.get("toolkit")
    facts = {name: (part or {}).get("version") for name, part in parts.items()}
    if toolkit and "error" not in toolkit:
        said = ", ".join(f"{name} {version}" for name, version in facts.items() if version)
        return MachineCheck(check="cann", state="ok", message=said, facts=facts)
    message = f"CANN cannot be read: {toolkit['error']}" if toolkit else "no CANN toolkit is found"
    hint = "Install CANN, or name its set_env.sh in env_files of this machine."
    if needed:
        return _repair("cann", "cann_unreadable" if toolkit else "cann_missing", message, hint, facts)
    return MachineCheck(check="cann", state="unknown" if toolkit else "absent", message=message, facts=facts)


def judge_vllm(context: Answer, probe: Answer, *, needed: bool) -> MachineCheck:
    """Judge whether there is a vLLM to serve with, with its NPU part where there are devices."""
    if isinstance(context, Failure):
        return _unknown("vllm", context)
    packages: dict[str, Any] = context["packages"]
    facts = {name: (packages.get(name) or {}).get("version") for name in ("vllm", "vllm-ascend", "torch-npu")}
    command = probe["tools"].get("vllm") if isinstance(probe, dict) else None
    wanted = ("vllm", "vllm-ascend") if needed else ("vllm",)
    missing = [name for name in wanted if not facts[name]]
    if command and not needed:
        missing = []
    said = ", ".join(f"{name} {version}" for name, version in facts.items() if version) or f"command {command}"
    if not missing:
        return MachineCheck(check="vllm", state="ok", message=said, facts={**facts, "command": command})
    errors = [part["error"] for part in packages.values() if part and "error" in part]
    message = f"not found: {', '.join(missing)}" + (f" ({errors[0]})" if errors else "")
    hint = "Install it, or set venv or env_files of this machine so that commands find it."
    if needed:
        return _repair("vllm", "vllm_missing", message, hint, facts)
    return MachineCheck(check="vllm", state="absent", message=message, next=hint, facts=facts)


def judge_leases(leases: Answer) -> MachineCheck:
    """Judge how far a lease on a device reaches."""
    if isinstance(leases, Failure):
        return _unknown("lease_scope", leases)
    scope, why = leases.get("lease_scope"), leases.get("lease_scope_why")
    facts = {"scope": scope, "why": why}
    if scope == "host":
        return MachineCheck(check="lease_scope", state="ok", message=f"host: {why}", facts=facts)
    if scope == "container":
        hint = "Give the container the host's network (--net=host), or share lease_dir with the other containers."
        message = f"only this container: {why}"
        return MachineCheck(check="lease_scope", state="warning", message=message, next=hint, facts=facts)
    return MachineCheck(check="lease_scope", state="unknown", message="the worker does not say", facts=facts)


def _unknown(check: str, failure: Failure) -> MachineCheck:
    return MachineCheck(
        check=check, state="unknown", message=f"could not be checked: {failure.message}", code=failure.code
    )


def _repair(check: str, code: str, message: str, hint: str, facts: dict[str, Any] | None = None) -> MachineCheck:
    return MachineCheck(
        check=check, state="failed", message=message, next=hint, code=code, status="needs_repair", facts=facts or {}
    )

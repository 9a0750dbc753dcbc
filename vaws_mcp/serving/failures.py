"""Failures of services. Codes: see each function."""

from typing import Any

from vaws_mcp.coordinator.records import ExecutionRecord
from vaws_mcp.core.failures import Blocked, Failure, Layer, Refused, TimedOut
from vaws_mcp.core.sanitize import one_line
from vaws_mcp.serving.classify import UNCLASSIFIED, Diagnosis

_DEVICE = ("npu_busy", "driver", "device_fault")
_ENVIRONMENT = ("missing_env", "missing_driver", "missing_dep", "version", "native_stale", "plugin", "build", "disk")


def layer_of(diagnosis: Diagnosis) -> Layer:
    """Return the layer that a class of failures belongs to."""
    if diagnosis.cls in _DEVICE:
        return "device"
    return "remote_env" if diagnosis.cls in _ENVIRONMENT else "remote_workload"


def how_it_ended(status: dict[str, Any]) -> str:
    """Say how an execution ended: ``exit code 1``, ``signal 9``, or its state."""
    end = status.get("exit") or {}
    if end.get("code") is not None:
        return f"exit code {end['code']}"
    return f"signal {end['signal']}" if end.get("signal") is not None else str(status["state"])


def service_exited(status: dict[str, Any], diagnosis: Diagnosis, log_tail: str) -> Failure:
    """The service ended before it was ready, by itself or because another call stopped it."""
    if (status.get("exit") or {}).get("reason") == "cancelled":
        return Failure(
            "service_stopped",
            f"the service was stopped before it was ready ({status.get('stop_reason') or 'no reason was given'})",
            layer="caller",
            hint="Somebody else ended it; call serve_start again if it is still wanted.",
            retry_safe=True,
            phase="serve",
        )
    known = diagnosis.cls != UNCLASSIFIED and diagnosis.failure
    why = one_line(str(diagnosis.line or status.get("note") or "see its log"), 240)
    return Failure(
        "service_exited",
        f"the service ended before it was ready ({how_it_ended(status)}): {why}",
        layer=layer_of(diagnosis),
        hint=diagnosis.hint if known else "The end of its log is in log_tail; the whole log stays on the endpoint.",
        phase="serve",
        fields={**(diagnosis.fields() if known else _unknown(diagnosis)), "log_tail": log_tail},
    )


def _unknown(diagnosis: Diagnosis) -> dict[str, Any]:
    return {**diagnosis.fields(), "class": UNCLASSIFIED, "signature": None}


def service_not_ready(seconds: float, missing: str, log_tail: str, *, left_alone: bool) -> TimedOut:
    """The service did not become ready in time. ``left_alone`` says that it was not stopped for that."""
    left = "; it was left as it is and goes on starting" if left_alone else ""
    more = "serve_start again goes on waiting and serve_stop ends it; " if left_alone else ""
    return TimedOut(
        "service_not_ready",
        f"the service was not ready after {seconds:.0f} s: {missing}{left}",
        layer="remote_workload",
        hint=f"{more}raise health_timeout if the model needs longer; the end of its log is in log_tail.",
        phase="serve",
        retry_safe=left_alone,
        fields={"log_tail": log_tail},
    )


def admission_blocked(record: ExecutionRecord, blocked: dict[str, Any]) -> Blocked:
    """The endpoint grants nothing, and waiting will not change that."""
    return Blocked(
        str(blocked.get("code") or "blocked"),
        f"{record.name} was not admitted: {blocked.get('message') or 'no reason was given'}",
        layer="device",
        hint=blocked.get("hint") or "npu_probe shows the devices.",
        retry_safe=True,
        phase="admission",
    )


def devices_mismatch(have: str, needed: int) -> Refused:
    """The devices asked for are not as many as the parallel sizes use."""
    return Refused(
        "devices_mismatch",
        f"{have}, but tp x dp comes to {needed}",
        hint="Change tp, dp, devices or npu_count so that they agree.",
    )

"""Failures of probing devices. The codes are those of ``worker.facts.npu.failures``, and ``file_unreadable``."""

from typing import Any

from vaws_mcp.core.failures import Failure, Layer, Refused

NOT_OF_NPU_SMI = ("unrecognised", "empty")


def unreadable(path: str, why: str) -> Refused:
    """The file of saved text cannot be read."""
    return Refused(
        "file_unreadable",
        f"cannot read {path}: {why}",
        layer="local",
        hint="Give a local text file with output of npu-smi, or - for standard input of the command.",
    )


def probe_failed(where: str, error: dict[str, Any], fields: dict[str, Any]) -> Failure:
    """npu-smi failed or its output is not whole; ``fields`` keep what is known nevertheless. No device is free."""
    layer: Layer = "caller" if error["code"] in NOT_OF_NPU_SMI else "device"
    return Failure(
        error["code"], f"{where}: {error['message']}", layer=layer, hint=error["hint"], retry_safe=True, fields=fields
    )

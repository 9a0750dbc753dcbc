"""npu_probe."""

import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure, Refused
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint, connected
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.npu import view
from vaws_mcp.npu.failures import probe_failed, unreadable
from vaws_mcp.npu.models import ProbeRequest, ProbeResult
from vaws_mcp.taskstore.reach import reach
from vaws_mcp.worker.facts.npu.parse import parse

BOUND_S = 30.0
DEADLINE_S = 180.0  # sourcing vendor scripts for the first time can take two minutes
MAX_TEXT_BYTES = 16 << 20
# What is wrong with a container and not with the devices.
HOST_MAY_KNOW = frozenset(
    {
        "npu_smi_missing",
        "npu_smi_permission",
        "npu_smi_wrong_arch",
        "driver_libs_missing",
        "driver_unavailable",
        "device_occupied",
        "not_permitted",
        "not_supported_in_container",
    }
)


def _check(request: ProbeRequest) -> None:
    """Refuse a kind of text where no text is given."""
    if request.kind is not None and request.from_file is None:
        raise Refused("no_text", "kind says what a saved text is, and there is none", hint="Give from_file too.")


@operation("npu_probe", title="Probe the NPUs", effect="read", idempotent=True, timeout_s=DEADLINE_S, check=_check)
async def npu_probe(request: ProbeRequest, ctx: Context) -> ProbeResult:
    """Report the NPUs of an endpoint: which are free, who holds the busy ones, which are unhealthy, all their ids.

    Free means: healthy, no process, memory at the idle level, and a whole process table; everything else says why not.
    When npu-smi cannot be used in the endpoint's container, its host is asked (probed_on: host). from_file reads saved
    output of npu-smi info (plain, -m, -l, -t health|usages|proc-mem|memory) and needs no endpoint.
    """
    if request.from_file is not None:
        return await _from_file(request.from_file, request, ctx)
    endpoint = await reach(ctx, request)
    snapshot, where = await _snapshot(endpoint), "endpoint"
    if not snapshot["ok"] and snapshot["error"]["code"] in HOST_MAY_KNOW and endpoint.config.container:
        found = await _from_host(ctx, endpoint.config, snapshot["error"])
        snapshot, where = (snapshot, where) if found is None else (found, "host")
    for warning in snapshot["warnings"]:
        ctx.warn(warning)
    fields = {**view.of_snapshot(snapshot), "endpoint": endpoint.config.address, "probed_on": where}
    if not snapshot["ok"]:
        raise probe_failed(endpoint.config.address, snapshot["error"], fields)
    return ProbeResult(**view.views(fields), summary=view.said(endpoint.config.address, fields))


async def _snapshot(endpoint: Endpoint) -> dict[str, Any]:
    params = {"env_spec": endpoint.env_spec(), "bound_s": BOUND_S}
    return (await endpoint.call("npu.probe", params, deadline_s=DEADLINE_S)).result


async def _from_host(ctx: Context, config: EndpointConfig, error: dict[str, Any]) -> dict[str, Any] | None:
    """Return the snapshot of the container's host, or None when it has none either.

    Its logic ids are not the container's, so they are left out; bus ids are the same on both.
    """
    here = {"container": None, "env_files": (), "venv": None, "python": None}
    why = f"npu-smi cannot be used in the container ({error['message']})"
    try:
        snapshot = await _snapshot(await connected(ctx, config.model_copy(update=here)))
    except Failure as failure:
        ctx.warn(f"{why}, and its host could not be asked: {failure.message}.")
        return None
    if not snapshot["ok"]:
        ctx.warn(f"{why}, nor on its host ({snapshot['error']['message']}).")
        return None
    ctx.warn(f"{why}, so its host was probed. Bus ids are the same there; logic ids of the container are not known.")
    return {**snapshot, "devices": [{**device, "logic": None} for device in snapshot["devices"]]}


async def _from_file(path: str, request: ProbeRequest, ctx: Context) -> ProbeResult:
    report = parse(await _saved(path, ctx), request.kind)
    for warning in report.warnings:
        ctx.warn(warning)
    fields = view.of_report(report)
    exit_code = fields.pop("exit_code", None)
    name = "the text" if path == "-" else path
    if report.error is not None:
        error = {"code": report.error.code, "message": report.error.message, "hint": report.error.hint}
        raise probe_failed(name, error, fields | {"exit_code": exit_code})
    return ProbeResult(**view.views(fields), summary=view.said(name, fields))


async def _saved(path: str, ctx: Context) -> str:
    """Read the text. Standard input belongs to the command only; that of a server carries its requests."""
    if path == "-" and ctx.wait_s is not None:
        raise unreadable("-", "a tool call has no standard input")
    try:
        raw = await anyio.to_thread.run_sync(_read, path, abandon_on_cancel=True)
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from None
    if len(raw) > MAX_TEXT_BYTES:
        raise unreadable(path, f"it is larger than {MAX_TEXT_BYTES >> 20} MB, which no output of npu-smi is")
    return raw.decode("utf-8", "replace")


def _read(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read(MAX_TEXT_BYTES + 1)
    with Path(path).expanduser().open("rb") as stream:
        return stream.read(MAX_TEXT_BYTES + 1)

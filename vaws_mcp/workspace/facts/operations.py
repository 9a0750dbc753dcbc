"""remote_probe, context_snapshot."""

from typing import Any

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.taskstore.reach import endpoint_of, reach
from vaws_mcp.workspace.facts.diagnose import diagnose
from vaws_mcp.workspace.facts.models import ProbeRequest, ProbeResult, SnapshotRequest, SnapshotResult

SNAPSHOT_S = 150.0  # sourcing vendor scripts for the first time can take this long


@operation("remote_probe", title="Look at an endpoint", effect="read", idempotent=True)
async def remote_probe(request: ProbeRequest, ctx: Context) -> ProbeResult:
    """Report facts about an endpoint: system, Python, tools, disk, NPU, CANN, locale, proxies, connection timing.

    `diagnose` connects once more and says how long each phase takes, or which one fails. Versions of Python packages
    and source trees: context_snapshot.
    """
    phases = await diagnose(ctx, endpoint_of(ctx, request)) if request.diagnose else []
    endpoint = await reach(ctx, request)
    answer = await endpoint.call("probe")
    return ProbeResult(
        endpoint=endpoint.config.address,
        worker=endpoint.hello,
        timing_ms=endpoint.timing_ms,
        facts=answer.result,
        diagnosis=phases,
        summary=f"{endpoint.config.address} answers; worker on Python {endpoint.hello.get('python')}",
    )


@operation("context_snapshot", title="Snapshot of versions", effect="read", idempotent=True, timeout_s=SNAPSHOT_S)
async def context_snapshot(request: SnapshotRequest, ctx: Context) -> SnapshotResult:
    """Report the versions that a service on the endpoint would run with.

    System, driver, CANN, NNAL, Python and its packages, commits of the vLLM trees, locale, proxies. Nothing is imported
    or written there. null means absent; {"error": ...} means that it is there, or may be, and could not be read.
    """
    endpoint = await reach(ctx, request)
    found: dict[str, dict[str, Any]] = {}

    async def ask(method: str, params: dict[str, Any]) -> None:
        found[method] = (await endpoint.call(method, params, deadline_s=SNAPSHOT_S)).result

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, "probe", {})
            group.start_soon(ask, "context", _params(endpoint, request))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return _result(endpoint, found["probe"], found["context"])


def _params(endpoint: Endpoint, request: SnapshotRequest) -> dict[str, Any]:
    config = endpoint.config
    return {
        "env_spec": endpoint.env_spec(refresh=request.refresh_env),
        "vllm_repo": config.vllm_repo,
        "vllm_ascend_repo": config.vllm_ascend_repo,
    }


def _result(endpoint: Endpoint, probe: dict[str, Any], versions: dict[str, Any]) -> SnapshotResult:
    in_hosts = probe["hostname_in_hosts"]
    names = ("os_release", "kernel", "machine", "cpus", "memory_total_bytes", "boot_id", "uid", "user")
    return SnapshotResult(
        endpoint=endpoint.config.address,
        system={**{name: probe[name] for name in names}, "container": probe["container_hint"]},
        python=versions["python"],
        packages=versions["packages"],
        repos=versions["repos"],
        cann=versions["cann"],
        npu={
            "devices": probe["npu_devices"],
            "manager": probe["npu_manager"],
            "npu_smi": probe["tools"].get("npu-smi"),
        },
        tools=probe["tools"],
        disk_free_bytes=probe["disk_free_bytes"],
        locale=probe["locale"],
        preferred_encoding=probe["preferred_encoding"],
        proxies=probe["proxies"],
        hostname={
            "name": probe["hostname"],
            "in_hosts": {"error": "/etc/hosts could not be read"} if in_hosts is None else in_hosts,
        },
        summary=_summary(endpoint, probe, versions),
    )


def _summary(endpoint: Endpoint, probe: dict[str, Any], versions: dict[str, Any]) -> str:
    """Return the facts that people ask for first, in one sentence."""
    packages = versions["packages"]
    parts = [f"{len(probe['npu_devices'])} NPU devices", _said("CANN", versions["cann"]["toolkit"])]
    parts += [_said(name, packages[name]) for name in ("torch-npu", "vllm", "vllm-ascend")]
    return f"{endpoint.config.address}: {', '.join(parts)}"


def _said(name: str, value: dict[str, Any] | None) -> str:
    if value is None:
        return f"no {name}"
    return f"{name} {value.get('version') or '(not readable)'}"

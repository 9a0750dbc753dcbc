"""machine_add, machine_list, machine_verify, machine_remove."""

from typing import Any

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Refused
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import FILE, drop_endpoint, load_endpoints, save_endpoint
from vaws_mcp.npu.machines.entry import check_replace, entry_of, entry_text
from vaws_mcp.npu.machines.failures import machine_in_use, not_ready, unknown_machine
from vaws_mcp.npu.machines.models import (
    Machine,
    MachineAddRequest,
    MachineAddResult,
    MachineListRequest,
    MachineListResult,
    MachineRemoveRequest,
    MachineRemoveResult,
    MachineResult,
    MachineVerifyRequest,
)
from vaws_mcp.npu.machines.usage import usage
from vaws_mcp.npu.machines.verify import Verified, verify
from vaws_mcp.taskstore.reach import endpoint_of

VERIFY_S = 110.0


@operation("machine_add", title="Add a machine", effect="write", timeout_s=VERIFY_S, positionals=("name", "host"))
async def machine_add(request: MachineAddRequest, ctx: Context) -> MachineAddResult:
    """Add a machine to endpoints.toml under a name, pin its host key, and check whether it is ready for work.

    The answer has the fingerprint of the host key: compare it with the host's own. When SSH cannot log in, nothing is
    saved. When something behind it is missing, the entry is saved and the checks say what to repair.
    """
    config = entry_of(request)
    check_replace(config, load_endpoints(ctx.state_dir), replace=request.replace)
    # The entry may say read_only; that it is added is not a change of the machine.
    found = await verify(ctx, config.model_copy(update={"accept_new": True, "read_only": False}))
    saved = found.checks["reachability"].state == "ok" and found.checks["host_key"].state != "failed"
    if saved:
        save_endpoint(ctx.state_dir, config)
    fields = _fields(config, found)
    fields.update(saved=saved, pinned=found.pinned, entry=entry_text(config))
    _raise_unless_ready(found, fields)
    return MachineAddResult(**fields, status="ready", summary=f"added {config.address}; {_said(found)}")


@operation(
    "machine_verify",
    title="Check a machine",
    effect="read",
    idempotent=True,
    timeout_s=VERIFY_S,
    positionals=("endpoint",),
    aliases=(("name", "endpoint"), ("machine", "endpoint")),
)
async def machine_verify(request: MachineVerifyRequest, ctx: Context) -> MachineResult:
    """Check a machine: reachability, host key, container, Python, NPU, CANN, vLLM, lease scope.

    The status is ready, needs_input (something must be given, such as a key), needs_repair (something on the machine
    is missing or broken) or blocked. Each check says what to do next. Without NPUs a machine can be ready for CPU work.
    """
    config = endpoint_of(ctx, request)
    found = await verify(ctx, config)
    fields = _fields(config, found)
    _raise_unless_ready(found, fields)
    return MachineResult(**fields, status="ready", summary=f"{config.address} is ready; {_said(found)}")


@operation("machine_list", title="List machines", effect="read", idempotent=True)
async def machine_list(request: MachineListRequest, ctx: Context) -> MachineListResult:  # noqa: ARG001 - the form of every operation
    """List the machines of endpoints.toml with their settings and the open tasks that use them. Contacts none."""
    used = usage(ctx.state_dir)
    machines = [
        Machine(
            machine=name,
            address=config.address,
            container=config.container,
            read_only=config.read_only,
            used_by=used.by_endpoint.get(name, []),
            settings=config.model_dump(mode="json", exclude={"name"}, exclude_defaults=True),
        )
        for name, config in load_endpoints(ctx.state_dir).items()
    ]
    return MachineListResult(
        machines=machines,
        file=str(ctx.state_dir / FILE),
        unreadable=used.unreadable,
        summary=f"{len(machines)} machines: {', '.join(machine.machine for machine in machines)}",
    )


@operation(
    "machine_remove", title="Remove a machine", effect="destroy", positionals=("name",), aliases=(("machine", "name"),)
)
async def machine_remove(request: MachineRemoveRequest, ctx: Context) -> MachineRemoveResult:
    """Remove a machine from endpoints.toml. Refused while an open task uses it, unless `force` is set.

    Nothing is contacted, and its host key stays known. The answer has the removed entry, to put it back if need be.
    """
    known = load_endpoints(ctx.state_dir)
    if request.name == "local":
        raise Refused("machine_reserved", "`local` is this machine and cannot be removed", hint="See machine_list.")
    if request.name not in known:
        raise unknown_machine(request.name, sorted(known))
    used = usage(ctx.state_dir)
    tasks = used.by_endpoint.get(request.name, [])
    if tasks and not request.force:
        raise machine_in_use(request.name, tasks)
    for trouble in used.unreadable:
        ctx.warn(f"whether this task uses the machine could not be read: {trouble}")
    drop_endpoint(ctx.state_dir, request.name)
    return MachineRemoveResult(
        machine=request.name,
        entry=entry_text(known[request.name]),
        used_by=tasks,
        summary=f"removed {known[request.name].address}",
    )


def _fields(config: EndpointConfig, found: Verified) -> dict[str, Any]:
    return {
        "machine": config.name,
        "address": config.address,
        "host_key": found.host_key,
        "checks": [check.model_dump(mode="json") for check in found.listed],
    }


def _raise_unless_ready(found: Verified, fields: dict[str, Any]) -> None:
    """Raise what stands in the way, with everything that was found.

    Raises: NeedsInput, NeedsRepair or Blocked.
    """
    check = found.first
    if check is not None:
        raise not_ready(check, found.status, found.failure, fields)


def _said(found: Verified) -> str:
    """Return the checks that people ask for first, in one sentence."""
    parts = [found.checks[name] for name in ("npu", "cann", "vllm", "lease_scope") if name in found.checks]
    return "; ".join(f"{part.check} {part.message}" for part in parts)

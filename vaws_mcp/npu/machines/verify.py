"""Checking a machine step by step. What stands behind a failed step is skipped, and says so."""

from dataclasses import dataclass, field
from typing import Any

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.connect import Endpoint, connected, host_link
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.npu.machines.judge import (
    ACCESS,
    HOST_KEY,
    PLACE,
    from_failure,
    judge_cann,
    judge_leases,
    judge_npu,
    judge_vllm,
)
from vaws_mcp.npu.machines.models import CHECKS, MachineCheck, Status

ASK_S = 45.0
_RANK: tuple[Status, ...] = ("blocked", "needs_input", "needs_repair", "ready")


@dataclass
class Verified:
    """What was found about a machine, check by check, and its host key."""

    checks: dict[str, MachineCheck] = field(default_factory=dict[str, MachineCheck])
    host_key: str | None = None
    pinned: bool = False
    failure: Failure | None = None

    @property
    def status(self) -> Status:
        """The worst that a check makes of the machine."""
        found = {check.status for check in self.checks.values()}
        return next(status for status in _RANK if status in found or status == "ready")

    @property
    def first(self) -> MachineCheck | None:
        """The check that decides the status, or None when the machine is ready."""
        return next((check for check in self.listed if check.status == self.status != "ready"), None)

    @property
    def listed(self) -> list[MachineCheck]:
        """All checks in their order; those that were not reached are skipped."""
        failed = next((name for name in CHECKS if (one := self.checks.get(name)) and one.state == "failed"), None)
        why = f"not checked, because {failed} failed" if failed else "not checked"
        return [self.checks.get(name) or MachineCheck(check=name, state="skipped", message=why) for name in CHECKS]

    def add(self, check: MachineCheck) -> None:
        """Take the answer of a check."""
        self.checks[check.check] = check


async def verify(ctx: Context, config: EndpointConfig) -> Verified:
    """Check a machine: reachability, host key, container, Python, NPU, CANN, vLLM and lease scope.

    Raises: Failure only for what is no property of the machine, such as ``read_only`` or a malformed jump host.
    """
    found = Verified()
    if not await _reach(ctx, config, found):
        return found
    endpoint = await _enter(ctx, config, found)
    if endpoint is not None:
        await _look(ctx, endpoint, found)
    return found


async def _reach(ctx: Context, config: EndpointConfig, found: Verified) -> bool:
    if config.is_local:
        found.add(MachineCheck(check="reachability", state="ok", message="this machine"))
        found.add(MachineCheck(check="host_key", state="absent", message="no SSH, so no host key"))
        return True
    await ctx.progress("reachability", f"connecting to {config.address}")
    try:
        link = await host_link(ctx, config)
    except Failure as failure:
        if failure.code in HOST_KEY:
            found.add(MachineCheck(check="reachability", state="ok", message=f"{config.address} answers"))
            found.add(from_failure("host_key", failure, HOST_KEY))
        elif failure.code in ACCESS:
            found.add(from_failure("reachability", failure, ACCESS))
        else:
            raise
        found.failure = failure
        return False
    key = link.connection.get_server_host_key()
    found.host_key = None if key is None else key.get_fingerprint()
    found.pinned = bool(link.pinned)
    known = "pinned now; compare it with the host's own" if found.pinned else "known"
    found.add(MachineCheck(check="reachability", state="ok", message=f"{config.address} answers"))
    found.add(MachineCheck(check="host_key", state="ok", message=f"{found.host_key}: {known}"))
    return True


async def _enter(ctx: Context, config: EndpointConfig, found: Verified) -> Endpoint | None:
    inside = f"container {config.container} runs" if config.container else "none: commands run on the host itself"
    await ctx.progress("worker", f"starting the worker on {config.address}")
    endpoint: Endpoint | None = None
    try:
        endpoint = await connected(ctx, config)
    except Failure as failure:
        if failure.code not in PLACE:
            raise
        found.failure = failure
        check = "container" if failure.code == "container_unusable" else "python"
        found.add(from_failure(check, failure, PLACE))
        if check == "container":
            return None
    found.add(MachineCheck(check="container", state="ok" if config.container else "absent", message=inside))
    if endpoint is not None:
        hello = endpoint.hello
        facts = {name: hello.get(name) for name in ("python", "user")}
        found.add(MachineCheck(check="python", state="ok", message=f"Python {hello.get('python')}", facts=facts))
    return endpoint


async def _look(ctx: Context, endpoint: Endpoint, found: Verified) -> None:
    """Ask the worker all questions at the same time, and judge the answers."""
    await ctx.progress("facts", "looking at devices, CANN, vLLM and leases")
    config = endpoint.config
    spec = endpoint.env_spec()
    repos = {"vllm_repo": config.vllm_repo, "vllm_ascend_repo": config.vllm_ascend_repo}
    asked: dict[str, dict[str, Any]] = {
        "probe": {},
        "npu.probe": {"env_spec": spec},
        "context": {"env_spec": spec, **repos},
        "lease.list": {"lease_dir": config.lease_dir, "env_spec": spec},
    }
    answers: dict[str, dict[str, Any] | Failure] = {}

    async def ask(method: str, params: dict[str, Any]) -> None:
        try:
            answers[method] = (await endpoint.call(method, params, deadline_s=ASK_S)).result
        except Failure as failure:
            answers[method] = failure

    async with anyio.create_task_group() as group:
        for method, params in asked.items():
            group.start_soon(ask, method, params)
    npu = judge_npu(answers["npu.probe"], answers["probe"])
    needed = npu.state != "absent" and not endpoint.simulated
    found.add(npu)
    found.add(judge_cann(answers["context"], needed=needed))
    found.add(judge_vllm(answers["context"], answers["probe"], needed=needed))
    found.add(judge_leases(answers["lease.list"]))

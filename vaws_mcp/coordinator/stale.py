"""stale_cleanup, and the same for benchmarks before and after a state."""

from vaws_mcp.coordinator.stale_models import StaleProcess, StaleReport, StaleRequest, StaleResult
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import CleanupFailed
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.taskstore.reach import reach

CLEANUP_S = 50.0


@operation("stale_cleanup", title="End stale vLLM processes", effect="destroy", idempotent=True, timeout_s=CLEANUP_S)
async def stale_cleanup(request: StaleRequest, ctx: Context) -> StaleResult:
    """List the engines and workers of vLLM whose server is gone, and end them with `apply`.

    A process counts as stale only if its name is one of vLLM's engines or workers, it is not protected, belongs to no
    live execution, has no living server, and belongs to this user in this container. Every other process with a title
    of vLLM is listed under `spared` with the reason. The default is a dry run.
    """
    endpoint = await reach(ctx, request)
    report = await find_stale(endpoint, apply=request.apply)
    return StaleResult(
        **report.model_dump(),
        status="cleaned" if request.apply else "dry_run",
        endpoint=endpoint.config.address,
        summary=_summary(endpoint, report),
        hint=None if request.apply or not report.matched else "Repeat with apply=true (--apply) to end them.",
    )


async def clean_around(ctx: Context, endpoint: Endpoint, when: str) -> StaleReport:
    """End what is stale before or after a state of a benchmark; ``when`` says which, as ``before state a``.

    What was ended is a warning of the result: somebody else's crash, or our own, left it.

    Raises: CleanupFailed ``stale_survived``; Failure of the endpoint.
    """
    await ctx.progress("stale_cleanup", f"{when}: looking for stale processes")
    report = await find_stale(endpoint, apply=True)
    if report.killed:
        ctx.warn(f"{when}: stale cleanup ended {_named(report.killed)} on {endpoint.config.address}")
    return report


async def find_stale(endpoint: Endpoint, *, apply: bool) -> StaleReport:
    """Judge the endpoint's processes and, with ``apply``, end the stale ones.

    Raises: CleanupFailed ``stale_survived`` with the whole report; Failure of the endpoint.
    """
    answer = await endpoint.call("stale.cleanup", {"apply": apply}, deadline_s=CLEANUP_S - 5.0, retry_safe=True)
    report = StaleReport.model_validate(answer.result)
    if report.surviving:
        raise CleanupFailed(
            "stale_survived",
            f"on {endpoint.config.address} {_named(report.surviving)} did not end",
            layer="remote_workload",
            hint="What survives SIGKILL waits in the kernel, often for a device: look at it with ps and dmesg.",
            retry_safe=True,
            phase="stale_cleanup",
        ).carrying(endpoint=endpoint.config.address, **report.model_dump(mode="json"))
    return report


def _named(processes: list[StaleProcess]) -> str:
    return ", ".join(f"{process.title or process.comm} (pid {process.pid})" for process in processes)


def _summary(endpoint: Endpoint, report: StaleReport) -> str:
    where = endpoint.config.address
    spared = f"{len(report.spared)} spared"
    if not report.matched:
        return f"{where}: nothing is stale; {spared}"
    if not report.applied:
        return f"{where}: stale, not touched: {_named(report.matched)}; {spared}"
    return f"{where}: ended {_named(report.killed)}; {spared}"

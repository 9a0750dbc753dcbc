"""nightly_show."""

from typing import Any

from pydantic import Field

from vaws_mcp.bench.nightly import Reference, cases_of, parsed
from vaws_mcp.bench.nightly_failures import nightly_part_unknown, nightly_unusable
from vaws_mcp.bench.nightly_models import Case
from vaws_mcp.bench.nightly_sources import read_text
from vaws_mcp.core.context import Context
from vaws_mcp.core.models import Result
from vaws_mcp.core.operation import operation
from vaws_mcp.endpoint.models import EndpointRequest
from vaws_mcp.taskstore.reach import reach

SHOW_S = 120.0


class NightlyShowRequest(EndpointRequest):
    """Arguments of ``nightly_show``."""

    name: str = Field(min_length=1, description="NAME of a configuration, NAME:CASE or NAME:CASE:BLOCK.")
    nightly_root: str | None = Field(
        default=None,
        min_length=1,
        description="Directory with nightly configurations, or with a checkout: here when it exists here (then no "
        "endpoint is asked), else on the endpoint. Default: the commit that the endpoint's vllm-ascend stands at.",
    )


class NightlyShowResult(Result):
    """What a benchmark would take from a nightly configuration."""

    name: str = Field(description="Name of the configuration.")
    source: dict[str, Any] = Field(description="where (local or endpoint), root, path, commit, modified.")
    cases: list[dict[str, Any]] = Field(
        description="For each case: usable, what it sets (tp, dp, port, served_model_name, serve_args, env), blocks "
        "with bench_args, not_carried_over, unresolved variables, notes, and problems or unsupported when it cannot be "
        "used."
    )
    notes: list[str] = Field(default_factory=list[str], description="About the file as a whole.")


def _check(request: NightlyShowRequest) -> None:
    """Refuse a name that cannot be one.

    Raises: Refused.
    """
    Reference.of(request.name)


@operation(
    "nightly_show",
    title="Show a nightly configuration",
    effect="read",
    idempotent=True,
    timeout_s=SHOW_S,
    positionals=("name",),
    check=_check,
)
async def nightly_show(request: NightlyShowRequest, ctx: Context) -> NightlyShowResult:
    """Print what bench_run and bench_compare would take from a nightly configuration of vllm-ascend (refer_nightly).

    Upstream measures with AISBench: what has no equivalent in `vllm bench serve` is in not_carried_over, and each
    workload says in `derived` how it differs. Its baselines are not comparable with our figures.
    """
    reference = Reference.of(request.name)
    text = await read_text(reference.name, request.nightly_root, lambda: reach(ctx, request))
    file = await parsed(text, reference.name)
    cases, key = cases_of(file, reference)
    if key is not None:
        cases = [_only(case, key) for case in cases]
    shown = [case.shown() for case in cases]
    source = text.source.as_json()
    if not any(case.usable for case in cases):
        raise nightly_unusable(reference.name, cases).carrying(name=reference.name, source=source, cases=shown)
    usable = sum(case.usable for case in cases)
    result = NightlyShowResult(
        name=reference.name,
        source=source,
        cases=shown,
        notes=file.notes,
        summary=f"{reference.name}: {usable} of {len(cases)} cases can be used, "
        f"{sum(len(case.workloads) for case in cases)} performance benchmarks",
    )
    first = next(case for case in cases if case.usable)
    block = f":{first.workloads[0].name}" if len(first.workloads) > 1 else ""
    result.hint = f"Use one with bench_run refer_nightly={reference.name}:{first.name}{block}."
    return result


def _only(case: Case, key: str) -> Case:
    """Return a case with one block.

    Raises: Refused ``nightly_block_unknown``.
    """
    blocks = [block for block in case.blocks if block.name == key]
    if not blocks:
        raise nightly_part_unknown("block", key, [block.name for block in case.blocks])
    return case.model_copy(update={"blocks": blocks})

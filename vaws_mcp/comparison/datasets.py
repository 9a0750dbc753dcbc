"""Having the fixed requests ready before the first iteration, and the same in every part of a comparison."""

from vaws_mcp.bench.command import expected_prompts
from vaws_mcp.comparison.cases import Case
from vaws_mcp.comparison.fixed_requests import FixedLoad, FixedRequests, existing, fixed_load, keep, kept, made
from vaws_mcp.comparison.work import Work
from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.serving.stop import Service
from vaws_mcp.serving.target import Target

NAME = "fixed.jsonl"


def dataset_path(work: Work) -> str:
    """Return where the requests lie on the endpoint: in the run's directory, unless the caller has named a file."""
    wanted = work.settings.fixed_dataset
    return (wanted.path if wanted else None) or f"{work.place.remote_dir}/{NAME}"


def with_fixed_requests(work: Work) -> list[Case]:
    """Return the cases, each with the fixed requests in its arguments when there are any."""
    return [Case(case.name, load.bench_args) for case, load in zip(work.cases, _loads(work), strict=True)]


def _loads(work: Work) -> list[FixedLoad]:
    wanted = work.settings.fixed_dataset
    if wanted is None:
        return [FixedLoad(case.bench_args, None) for case in work.cases]
    return [fixed_load(case.bench_args, wanted, dataset_path(work)) for case in work.cases]


async def ensure_requests(ctx: Context, work: Work, service: Service) -> None:
    """Make the fixed requests once, with the first service that is there; a file of the caller is looked at each time.

    Raises: Failure ``fixed_dataset_differs`` when the comparison would go on with others.
    """
    wanted, before = work.settings.fixed_dataset, kept(work.run_dir)
    path = dataset_path(work)
    if wanted is None or (before is not None and before.path == path and wanted.path is None):
        return
    if wanted.path is not None:
        found = await existing(work.endpoint, wanted, path)
    else:
        await ctx.progress("fixed_dataset", f"making requests of exactly {wanted.input_len} tokens")
        target = Target.of(service.settings, service.port)
        rows = max(expected_prompts(case.bench_args) or 1 for case in work.cases)
        found = await made(work.endpoint, target, wanted, path, rows)
    why = next((load.why for load in _loads(work) if load.why), None)
    if why is not None and before is None:
        ctx.warn(f"the fixed requests are not exact: {why}")
    _same_as_before(before, found)
    keep(work.run_dir, found.model_copy(update={"exact": why is None}))


def _same_as_before(before: FixedRequests | None, found: FixedRequests) -> None:
    if before is None:
        return
    if (before.prompt_sha256, before.output_len) != (found.prompt_sha256, found.output_len):
        raise Failure(
            "fixed_dataset_differs",
            "the fixed requests are not those of the launches before",
            layer="remote_env",
            hint="The model's tokenizer, the data set or its lengths have changed since. Start a new run.",
            phase="fixed_dataset",
        )

"""Nightly configurations as a reference: find the file, choose the case, and the performance block in it."""

from dataclasses import dataclass

import anyio.to_thread

from vaws_mcp.bench.models import BenchRequest
from vaws_mcp.bench.nightly_failures import nightly_choice_needed, nightly_part_unknown, nightly_unusable
from vaws_mcp.bench.nightly_models import Block, Case, File, NightlyChoice, Source
from vaws_mcp.bench.nightly_sources import Text, check_name, read_text
from vaws_mcp.bench.settings import BenchSettings
from vaws_mcp.core.context import Context
from vaws_mcp.endpoint.connect import Endpoint


@dataclass(frozen=True)
class Reference:
    """What ``NAME[:CASE[:BLOCK]]`` says."""

    name: str
    rest: str | None

    @classmethod
    def of(cls, given: str) -> "Reference":
        """Return the parts of a reference; which case and block it names, the file decides.

        Raises: Refused.
        """
        name, separator, rest = given.partition(":")
        check_name(name)
        return cls(name, rest if separator else None)


async def settings_of(ctx: Context, endpoint: Endpoint, request: BenchRequest) -> BenchSettings:
    """Return the effective settings of a request, with those of the nightly case that it refers to.

    Raises: Failure of reading the nightly configuration; Refused for settings that contradict each other.
    """
    if request.refer_nightly is None:
        return BenchSettings.of(request, ctx.state_dir)
    await ctx.progress("nightly", f"reading nightly configuration {request.refer_nightly}")
    reference = Reference.of(request.refer_nightly)

    async def connect() -> Endpoint:
        return endpoint

    text = await read_text(reference.name, request.nightly_root, connect)
    file = await parsed(text, reference.name)
    before = BenchSettings.of(request, ctx.state_dir)
    chosen = choose(file, reference, text.source, block_matters=before.origin["bench_args"] == "default")
    if chosen.case.model not in (None, request.model):
        ctx.warn(f"nightly {chosen.name} is for the model {chosen.case.model}; yours is used")
    if chosen.block and chosen.block.derived:
        ctx.warn(f"nightly {reference.name}: another workload than the nightly's own: {chosen.block.derived}")
    return BenchSettings.of(request, ctx.state_dir, chosen)


async def parsed(text: Text, name: str) -> File:
    """Return the cases in a text. The parser is loaded, and works, beside the event loop.

    Raises: Refused.
    """

    def parse() -> File:
        from vaws_mcp.bench.parse_nightly import parse_nightly

        return parse_nightly(text.raw, name)

    return await anyio.to_thread.run_sync(parse)


def cases_of(file: File, reference: Reference) -> tuple[list[Case], str | None]:
    """Return the cases that a reference names, and the key of the block if it names one.

    Raises: Refused ``nightly_case_unknown``.
    """
    rest = reference.rest
    if rest is None:
        return file.cases, None
    exact = [case for case in file.cases if case.name == rest]
    if exact:
        return exact, None
    case_name, separator, key = rest.rpartition(":")
    found = [case for case in file.cases if separator and case.name == case_name]
    if not found:
        raise nightly_part_unknown("case", rest, [case.name for case in file.cases])
    return found, key


def choose(file: File, reference: Reference, source: Source, *, block_matters: bool = True) -> NightlyChoice:
    """Return the one case that settings are taken from, and its performance block.

    Raises: Refused when it cannot be used; NeedsInput when there are several and nothing says which.
    """
    cases, key = cases_of(file, reference)
    if len(cases) > 1 and reference.rest is None:
        raise nightly_choice_needed("case", reference.name, [case.name for case in cases])
    case = cases[0]
    if not case.usable:
        raise nightly_unusable(reference.name, [case])
    name = reference.name if len(file.cases) == 1 else f"{reference.name}:{case.name}"
    return NightlyChoice(name, case, _block(case, key, reference, block_matters), source, tuple(file.notes))


def _block(case: Case, key: str | None, reference: Reference, block_matters: bool) -> Block | None:
    blocks = case.workloads
    keys = [block.name for block in blocks]
    if key is not None:
        if key not in keys:
            raise nightly_part_unknown("block", key, keys)
        return blocks[keys.index(key)]
    if len(blocks) > 1 and block_matters:
        raise nightly_choice_needed("block", f"{reference.name}:{case.name}", keys)
    return blocks[0] if len(blocks) == 1 else None

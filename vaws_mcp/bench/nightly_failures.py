"""Failures of nightly configurations. Codes: see each function."""

from collections.abc import Sequence

from vaws_mcp.bench.nightly_models import Baseline, Case
from vaws_mcp.core.failures import Failure, NeedsInput, Refused


def nightly_malformed(name: str, why: str) -> Refused:
    """The file is no nightly configuration of single-node cases."""
    return Refused(
        "nightly_malformed",
        f"nightly configuration {name} cannot be read: {why}",
        hint="Choose another, or correct it.",
    )


def nightly_multi_node(name: str, why: str) -> Refused:
    """The file describes several machines."""
    return Refused(
        "nightly_multi_node",
        f"nightly configuration {name} is for several machines: {why}",
        hint="Only single-node configurations can be used here.",
    )


def nightly_unknown(name: str, place: str, near: list[str], known: list[str]) -> Refused:
    """No file has this name."""
    suggestion = f" Did you mean {near[0]}?" if near else ""
    shown = ", ".join(known[:60]) + (f" and {len(known) - 60} more" if len(known) > 60 else "")
    return Refused(
        "nightly_unknown",
        f"there is no nightly configuration {name!r} in {place}; there are: {shown or 'none'}",
        hint=f"Give the name of a file without .yaml.{suggestion}",
    )


def nightly_absent(place: str, why: str) -> Failure:
    """There is no directory of nightly configurations."""
    return Failure(
        "nightly_absent",
        f"there are no nightly configurations in {place}: {why}",
        layer="remote_env",
        hint="vllm-ascend has them since v0.16; give nightly_root for another place.",
        retry_safe=True,
    )


def nightly_part_unknown(what: str, given: str, known: Sequence[str]) -> Refused:
    """The file has no such case, or the case no such block."""
    return Refused(
        f"nightly_{what}_unknown",
        f"there is no {what} {given!r}; there are: {', '.join(known) or 'none'}",
        hint="Write NAME:CASE or NAME:CASE:BLOCK.",
    )


def nightly_choice_needed(what: str, name: str, known: Sequence[str]) -> NeedsInput:
    """There are several, and nothing says which is meant."""
    return NeedsInput(
        f"nightly_{what}_needed",
        f"{name} has several: {', '.join(known)}",
        hint=f"Name one, for example refer_nightly={name}:{known[0]}.",
    )


def nightly_unusable(name: str, cases: Sequence[Case]) -> Refused:
    """None of the cases can be used."""
    reasons = [f"{case.name}: {case.unsupported or '; '.join(case.problems)}" for case in cases]
    code = "nightly_unsupported" if all(case.unsupported for case in cases) else "nightly_case_malformed"
    return Refused(
        code, f"nightly configuration {name} cannot be used: {' | '.join(reasons)}", hint="Choose another case."
    )


def require_comparable(baseline: Baseline, client: str) -> None:
    """Let a comparison pass whose baseline was measured by the same client.

    Raises: Refused ``baseline_of_another_client``: its prompts, its way of counting and its load differ from ours, so
    the difference would be that of the clients.
    """
    if baseline.client.casefold() == client.casefold():
        return
    raise Refused(
        "baseline_of_another_client",
        f"the baseline {baseline.value} was measured by {baseline.client}, so figures of {client} say nothing about it",
        hint="Measure a reference state with the same client: bench_compare.",
    )

"""From the launches of a comparison to effects, and with a policy to a verdict. Pure."""

from collections.abc import Iterator, Sequence

from vaws_mcp.comparison.models import EffectRow, Judged, JudgementRow
from vaws_mcp.comparison.records import LaunchRecord
from vaws_mcp.comparison.states import means, of_case
from vaws_mcp.comparison.verdict import MeasuredLaunch, Quality, judge_gates, judge_metrics, overall, points
from vaws_mcp.numeric.effect import state_effect
from vaws_mcp.presets.policies import Policy

METRICS = ("mean_tpot_ms", "output_throughput", "mean_ttft_ms")
ADVISED_FOR_PCT = 3.0
ACCEPTANCE = "spec_decode_acceptance_rate"

Launches = Sequence[LaunchRecord]


def pairs(launches: Launches) -> Iterator[tuple[str, str, list[LaunchRecord], list[LaunchRecord]]]:
    """Yield state, case, launches of the first state and of this one, for all states but the first."""
    labels = list(dict.fromkeys(record.label for record in launches))
    for label in labels[1:]:
        for case in dict.fromkeys(record.case for record in launches):
            chosen = of_case(launches, case)
            sides = [[record for record in chosen if record.label == name] for name in (labels[0], label)]
            yield label, case, sides[0], sides[1]


def measured(launches: Launches) -> list[MeasuredLaunch]:
    """Return launches in the form that the statistics take."""
    return [
        MeasuredLaunch(
            record.number,
            record.round,
            {name: [run.get(name) for run in record.counted] for run in record.counted for name in run},
        )
        for record in launches
    ]


def effects_of(launches: Launches, metrics: Sequence[str] = METRICS) -> list[EffectRow]:
    """Return the effect of every state but the first by case and metric, with rounds advised to call 6 % by name."""
    return [
        EffectRow(
            state=state,
            case=case,
            metric=metric,
            effect=state_effect(
                points(measured(first), metric), points(measured(other), metric), threshold_pct=ADVISED_FOR_PCT
            ),
        )
        for state, case, first, other in pairs(launches)
        for metric in metrics
    ]


def judged(name: str, policy: Policy, launches: Launches, planned: Sequence[tuple[str, str]] = ()) -> Judged:
    """Apply a policy to all states and cases; one that was planned and has no launch yet is inconclusive."""
    rows = [
        JudgementRow(state=state, case=case, **judgement.model_dump())
        for state, case, first, other in pairs(launches)
        for judgement in [
            *judge_metrics(policy, measured(first), measured(other))[0],
            *judge_gates(policy.gates, quality(first, other)),
        ]
    ]
    done = {(record.label, record.case) for record in launches}
    rows += [
        JudgementRow(state=state, case=case, name="launches", verdict="inconclusive", reason="it was not measured")
        for state, case in planned
        if (state, case) not in done
    ]
    return Judged(policy=name, verdict=overall(rows), judgements=rows)


def quality(first: Launches, other: Launches) -> Quality:
    """Return what is known about a state besides its metrics."""
    contaminated = [record.contaminated for record in [*first, *other]]
    return Quality(
        failed_requests=_sum([_failed_requests(record) for record in other]),
        probe_changed=_probe_changed(first, other),
        acceptance_drop=_acceptance_drop(first, other),
        native_inputs_changed=_any([(record.native or {}).get("changed") for record in other]),
        contaminated_launches=_sum([None if seen is None else int(seen) for seen in contaminated]),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    """Return the sum; unknown when one is, unless what is known is above zero already."""
    known = [value for value in values if value is not None]
    total = sum(known)
    return total if values and (len(known) == len(values) or total > 0) else None


def _any(values: Sequence[bool | None]) -> bool | None:
    if any(values):
        return True
    return None if not values or None in values else False


def _failed_requests(record: LaunchRecord) -> int | None:
    counted = [run for run in record.per_run if not run["warmup"]]
    return _sum([(run.get("requests") or {}).get("failed") for run in counted])


def _probe_changed(first: Launches, other: Launches) -> bool | None:
    texts = [{(record.accuracy_probe or {}).get("text_sha256") for record in side} for side in (first, other)]
    if not all(texts) or None in texts[0] | texts[1]:
        return None
    return not texts[1] <= texts[0]


def _acceptance_drop(first: Launches, other: Launches) -> float | None:
    """Return how far the speculative acceptance rate fell; 0.0 when neither state drafts.

    None when one alone does, or when a service drafted and its client does not say how well.
    """
    before, after = means(first).get(ACCEPTANCE), means(other).get(ACCEPTANCE)
    if before is None and after is None:
        drafted = any(
            (run.get("service_counted") or {}).get("draft_tokens") for one in (*first, *other) for run in one.per_run
        )
        return 0.0 if first and other and not drafted else None
    return None if before is None or after is None else max(0.0, before - after)


def changed_answers(launches: Launches) -> list[str]:
    """Return a sentence for each state whose probe says something else than the first state's."""
    changed = {state for state, _case, first, other in pairs(launches) if _probe_changed(first, other)}
    return [
        f"the accuracy probe of {state} answers another text than that of the first state" for state in sorted(changed)
    ]

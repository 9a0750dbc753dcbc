"""From the launches of all states to the rows of a comparison."""

from collections.abc import Sequence

from vaws_mcp.comparison.models import ComparisonRow
from vaws_mcp.comparison.records import LaunchRecord
from vaws_mcp.comparison.states import means, of_case
from vaws_mcp.numeric.summary import difference, pct_change

Means = dict[str, float | None]


def compare(launches: Sequence[LaunchRecord]) -> list[ComparisonRow]:
    """Return one row per state and case, each against the first state in that case.

    Shapes: states in order of their first launch, cases in order inside each. Units: ms, tok/s, percent of the first
    state's value.
    """
    labels = list(dict.fromkeys(record.label for record in launches))
    cases = list(dict.fromkeys(record.case for record in launches))

    def of(label: str, case: str) -> Means:
        return means([record for record in of_case(launches, case) if record.label == label])

    first = {case: of(labels[0], case) for case in cases}
    return [_row(label, case, of(label, case), first[case]) for label in labels for case in cases]


def _row(label: str, case: str, own: Means, first: Means) -> ComparisonRow:
    tpot, throughput = own.get("mean_tpot_ms"), own.get("output_throughput")
    return ComparisonRow(
        state=label,
        case=case,
        mean_tpot_ms=tpot,
        output_throughput=throughput,
        spec_decode_acceptance_rate=own.get("spec_decode_acceptance_rate"),
        delta_tpot_ms_vs_first=difference(tpot, first.get("mean_tpot_ms")),
        delta_tpot_pct_vs_first=pct_change(tpot, first.get("mean_tpot_ms")),
        delta_output_throughput_pct_vs_first=pct_change(throughput, first.get("output_throughput")),
    )

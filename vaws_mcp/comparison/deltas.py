"""From the launches of all states to the rows of a comparison."""

from collections.abc import Sequence

from vaws_mcp.bench.measure import Launch
from vaws_mcp.comparison.models import ComparisonRow
from vaws_mcp.numeric.summary import difference, pct_change

DEFAULT_CASE = "default"


def compare(launches: Sequence[Launch], case: str = DEFAULT_CASE) -> list[ComparisonRow]:
    """Return one row per launch, each against the first.

    Shapes: as many rows as launches. Units: ms, tok/s, percent of the first state's value.
    """
    first = launches[0].means()
    return [_row(launch, first, case) for launch in launches]


def _row(launch: Launch, first: dict[str, float | None], case: str) -> ComparisonRow:
    own = launch.means()
    tpot, throughput = own.get("mean_tpot_ms"), own.get("output_throughput")
    return ComparisonRow(
        state=launch.label,
        case=case,
        mean_tpot_ms=tpot,
        output_throughput=throughput,
        spec_decode_acceptance_rate=own.get("spec_decode_acceptance_rate"),
        delta_tpot_ms_vs_first=difference(tpot, first.get("mean_tpot_ms")),
        delta_tpot_pct_vs_first=pct_change(tpot, first.get("mean_tpot_ms")),
        delta_output_throughput_pct_vs_first=pct_change(throughput, first.get("output_throughput")),
    )

"""Read every nightly configuration of a checkout of vllm-ascend: what can be used, and why the rest cannot.

DIR is a checkout, or any directory with YAML files. Files of several machines have to be refused as such. The exit code
is 1 when a file is neither read nor refused with a reason, or takes longer than a second.

    uv run python perf/nightly_sweep.py DIR [--json FILE] [--verbose]
"""

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from vaws_mcp.bench.parse_nightly import parse_nightly
from vaws_mcp.core.failures import Refused

NIGHTLY = "tests/e2e/nightly"
FILE_BAR_S = 1.0


@dataclass
class Outcome:
    """What one file came to."""

    file: str
    seconds: float = 0.0
    code: str | None = None
    why: str | None = None
    cases: int = 0
    usable: int = 0
    workloads: int = 0
    reasons: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])

    @property
    def met(self) -> bool:
        """Whether it was read or refused, in time."""
        return self.code != "error" and self.seconds <= FILE_BAR_S


def sweep(path: Path, name: str) -> Outcome:
    """Read one file."""
    outcome = Outcome(name)
    begin = time.perf_counter()
    try:
        found = parse_nightly(path.read_bytes(), name)
    except Refused as refused:
        outcome.code, outcome.why = refused.code, refused.message
    except Exception as error:  # noqa: BLE001 - the sweep goes on, and reports it
        outcome.code, outcome.why = "error", f"{type(error).__name__}: {error}"
    else:
        outcome.cases = len(found.cases)
        outcome.usable = sum(case.usable for case in found.cases)
        outcome.workloads = sum(len(case.workloads) for case in found.cases)
        for case in found.cases:
            why = case.unsupported or "; ".join(case.problems)
            outcome.reasons += [f"{case.name}: {why}"] if why else []
            outcome.notes += [f"{case.name}: {note}" for note in case.notes]
    outcome.seconds = time.perf_counter() - begin
    return outcome


def files_of(root: Path) -> list[Path]:
    """Return the YAML files of a checkout's nightly tests, or of any other directory."""
    folder = root / NIGHTLY if (root / NIGHTLY).is_dir() else root
    return sorted(path for path in folder.rglob("*.y*ml") if path.is_file())


def main() -> int:
    """Print one line for each file, then the totals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--json", type=Path, help="Write all outcomes to this file.")
    parser.add_argument("--verbose", action="store_true", help="Print notes too.")
    given = parser.parse_args()
    outcomes = [sweep(path, str(path.relative_to(given.directory))) for path in files_of(given.directory)]
    for one in outcomes:
        said = one.why or f"{one.usable} of {one.cases} cases usable, {one.workloads} performance benchmarks"
        print(f"{one.seconds * 1000:7.1f} ms  {one.file}: {said}")
        for line in [*one.reasons, *(one.notes if given.verbose else ())]:
            print(f"             {line}")
    codes = Counter(one.code or "read" for one in outcomes)
    print(f"{len(outcomes)} files: {', '.join(f'{count} {code}' for code, count in codes.items())}")
    print(
        f"{sum(one.cases for one in outcomes)} cases, {sum(one.usable for one in outcomes)} usable, "
        f"{sum(one.workloads for one in outcomes)} performance benchmarks"
    )
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in outcomes], indent=1))
    return 0 if outcomes and all(one.met for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())

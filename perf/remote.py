"""Every figure that the remote operations must reach, against `ssh`, `scp`, `rsync`, `rg` and `grep`, in one run.

Both sides use the same OpenSSH server on loopback, clean home directories and, for bulk data, memory instead of a
disk. They take turns, in blocks of 50 for small calls. Times are medians unless a row says otherwise.

    uv run python perf/remote.py [--quick] [--only bash,read] [--own-cipher] [--json FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import remote_bulk
import remote_calls
import remote_search
from figures import HEADER, Row
from remote_world import World, open_world

# The one that our side prefers, so that the cipher does not decide.
CIPHER = "aes128-gcm@openssh.com"
MEASURES: dict[str, Callable[[World], Awaitable[list[Row]]]] = {
    "bash": remote_calls.bash,
    "read": remote_calls.read,
    "many": remote_calls.many,
    "far": remote_calls.far,
    "first": remote_calls.first,
    "file": remote_bulk.file,
    "tree": remote_bulk.tree,
    "far-tree": remote_bulk.far_tree,
    "memory": remote_bulk.memory,
    "grep": remote_search.grep,
}


def main() -> int:
    """Measure and print; exit 1 when a bar is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="Take fewer samples.")
    parser.add_argument("--only", metavar="NAMES", help=f"Comma-separated, of: {', '.join(MEASURES)}.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="Also write the rows to a file.")
    parser.add_argument("--own-cipher", action="store_true", help="Let ssh, scp and rsync choose their cipher.")
    options = parser.parse_args()
    names: list[str] = options.only.split(",") if options.only else list(MEASURES)
    if unknown := [name for name in names if name not in MEASURES]:
        parser.error(f"unknown: {', '.join(unknown)}")
    target = options.json and options.json.absolute()
    with open_world(quick=options.quick, cipher=None if options.own_cipher else CIPHER) as world:
        rows = anyio.run(measure, world, names)
    if target:
        target.write_text(json.dumps([row.as_json() for row in rows], indent=1) + "\n", "utf-8")
    missed = sum(not row.met for row in rows)
    print(f"{len(rows) - missed} of {len(rows)} bars met")
    return 1 if missed else 0


async def measure(world: World, names: list[str]) -> list[Row]:
    """Take all measures and print each row when it is known."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} CPUs, load {load}, Python {sys.version.split()[0]}; {spawn_ms():.2f} ms of each program's")
    print("time go to starting any process from here")
    print(HEADER, flush=True)
    rows: list[Row] = []
    for name in names:
        for row in await MEASURES[name](world):
            print(row.as_line(), flush=True)
            rows.append(row)
    return rows


def spawn_ms() -> float:
    """Return the median time that starting and awaiting an empty program takes here."""
    taken: list[float] = []
    for _ in range(50):
        begin = time.perf_counter()
        subprocess.run(["/bin/true"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        taken.append((time.perf_counter() - begin) * 1000)
    return sorted(taken)[25]


if __name__ == "__main__":
    sys.exit(main())

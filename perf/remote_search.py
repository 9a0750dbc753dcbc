"""Grep in a tree of 50 000 files, with `rg` on the endpoint and without."""

import random
import shutil
from contextlib import nullcontext
from pathlib import Path

from figures import Row, Side, median
from remote_bulk import in_turn
from remote_world import McpCaller, MeasureError, World

FILES = 50_000
FILE_BYTES = 5_600
WORDS = ("value", "index", "length", "config", "request", "answer", "buffer", "stream", "worker", "engine", "tensor")
LITERAL = "needle_in_the_tree"
# In the last one nothing of three bytes is in every match. Without rg the bar is the third.
PATTERNS = (
    ("text", LITERAL, 1.0),
    ("regex", r"def find_\w+_needle\(", 1.0),
    ("regex without literal", r"[0-9]{4}-[0-9]{2}-[0-9]{2}T", 4.0),
)


def make_files(world: World) -> Path:
    """Make the tree once: 280 MB of text that looks like source code. Every 500th file has what is looked for."""
    root, chance = world.bulk / "sources", random.Random(3)  # noqa: S311
    if root.exists():
        return root
    lines = [
        f"    {chance.choice(WORDS)}_{chance.randrange(1000)} = self.{chance.choice(WORDS)}({chance.choice(WORDS)})\n"
        for _ in range(5000)
    ]
    pieces = ["".join(chance.choices(lines, k=20)) for _ in range(500)]
    size = sum(map(len, pieces)) // len(pieces)
    for number in range(FILES):
        folder = root / f"package_{number % 50}" / f"module_{number // 50 % 20}"
        if number < 1000:
            folder.mkdir(parents=True, exist_ok=True)
        text = "".join(chance.choices(pieces, k=FILE_BYTES // size))
        if number % 500 == 0:
            text += f"{LITERAL} = 1\ndef find_the_needle(): pass\n# 2031-07-15T12\n"
        (folder / f"source_{number}.py").write_text(text, "utf-8")
    return root


async def grep(world: World) -> list[Row]:
    """The same patterns on both kinds of endpoints."""
    root = make_files(world)
    rows: list[Row] = []
    engines = ["python"] if shutil.which("rg") is None else ["rg", "python"]
    for engine in engines:
        with world.without_rg() if engine == "python" else nullcontext():
            async with world.over_mcp() as mcp:
                for name, pattern, slower in PATTERNS:
                    bar = 1.1 if engine == "rg" else slower
                    rows.append(await _compared(world, mcp, root, Row(f"grep {name}", 1, 1, bar, engine), pattern))
    if len(engines) == 1:
        print("rg is not installed, so it was not compared with: apt-get install ripgrep", flush=True)
    return rows


async def _compared(world: World, mcp: McpCaller, root: Path, row: Row, pattern: str) -> Row:
    """Measure one pattern. Both sides must find the same number of files."""
    engine = row.against
    endpoint, program = ("near", ["rg", "-l"]) if engine == "rg" else ("bare", ["grep", "-rlE"])
    command = world.ssh.argv(*program, "--", f"'{pattern}'", str(root))
    counts: set[int] = set()

    async def ours() -> None:
        answer = await mcp.call("remote_grep", endpoint=endpoint, path=str(root), pattern=pattern)
        if answer["engine"] != engine:
            raise MeasureError(f"searched with {answer['engine']} instead of {engine}")
        counts.add(answer["total_files"])

    async def theirs() -> None:
        counts.add(len((await world.ssh.run(command)).splitlines()))

    sides: dict[str, Side] = {"ours": ours, "theirs": theirs}
    await in_turn(sides, 1)
    taken = await in_turn(sides, world.count(15, 4))
    if counts != {FILES // 500}:
        raise MeasureError(f"{pattern!r} was found in {sorted(counts)} files instead of {FILES // 500}")
    where = f"{row.operation}, {'rg' if engine == 'rg' else 'no rg'} there"
    return Row(where, median(taken["ours"]), median(taken["theirs"]), row.bar, f"{' '.join(program)} by ssh, warm")

"""Large files and trees, and the memory that moving them takes."""

import hashlib
import random
from pathlib import Path

from figures import Row, Side, median, timed
from remote_world import McpCaller, MeasureError, World, clear

FILE_BYTES = 200 << 20
TREE_FILES = 2000
ROUND_TRIP_MS = 20.0
MEMORY_MB = 40.0


def make_file(world: World) -> Path:
    """Make the large file once."""
    path = world.bulk / "big"
    if not path.exists():
        chance = random.Random(1)  # noqa: S311 - only to be incompressible
        with path.open("wb") as file:
            for _ in range(FILE_BYTES >> 20):
                file.write(chance.randbytes(1 << 20))
    return path


def make_tree(world: World) -> Path:
    """Make 2000 files of 4 KB on average, in 40 directories, once."""
    root, chance = world.bulk / "tree", random.Random(2)  # noqa: S311
    if not root.exists():
        for number in range(TREE_FILES):
            path = root / f"part-{number % 40}" / f"file-{number}.dat"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(chance.randbytes(chance.randrange(200, 8200)))
    return root


async def in_turn(sides: dict[str, Side], samples: int, targets: tuple[Path, ...] = ()) -> dict[str, list[float]]:
    """Call each side in turn; the targets are removed before each call, which is not counted.

    Units: milliseconds.
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(samples):
        for name, side in sides.items():
            clear(*targets)
            taken[name].append(await timed(side))
    return taken


async def file(world: World) -> list[Row]:
    """One file of 200 MB each way, against `scp` and `ssh cat`."""
    source, target, ssh, cold = make_file(world), world.bulk / "big-copy", world.ssh, world.cold

    async def cat_up() -> None:
        with source.open("rb") as data:
            await ssh.run(ssh.argv(f"cat > '{target}'"), stdin=data)

    async def cat_down() -> None:
        with target.open("wb") as data:
            await ssh.run(ssh.argv(f"cat '{source}'"), stdout=data)

    async with world.over_mcp() as mcp:
        await mcp.call("remote_bash", endpoint="near", command="true")
        pushes: dict[str, Side] = {
            "ours": lambda: push(mcp, "near", source, target),
            "scp": lambda: cold.run(cold.scp(str(source), f":{target}")),
            "cat": cat_up,
        }
        pulls: dict[str, Side] = {
            "ours": lambda: pull(mcp, "near", source, target),
            "scp": lambda: cold.run(cold.scp(f":{source}", str(target))),
            "cat": cat_down,
        }
        rows: list[Row] = []
        for way, sides in (("push", pushes), ("pull", pulls)):
            clear(target)
            await sides["ours"]()
            check_same(source, target)
            taken = await in_turn(sides, world.count(9, 3), (target,))
            ours = median(taken["ours"])
            rows.append(Row(f"{way} 200 MB", ours, median(taken["scp"]), 1 / 1.1, "scp (1.1 x its speed)"))
            rows.append(Row(f"{way} 200 MB", ours, median(taken["cat"]), 1 / 0.5, "ssh cat, warm (0.5 x its speed)"))
    clear(target)
    return rows


def check_same(source: Path, target: Path) -> None:
    """Compare two files.

    Raises: MeasureError.
    """
    digests: set[str] = set()
    for path in (source, target):
        with path.open("rb") as data:
            digests.add(hashlib.file_digest(data, "sha256").hexdigest())
    if len(digests) != 1:
        raise MeasureError(f"{target} differs from {source}")


async def push(caller: McpCaller, endpoint: str, source: Path, target: Path) -> None:
    """Push a file or a tree."""
    await caller.call("artifact_push", endpoint=endpoint, local_path=str(source), remote_path=str(target), wait_s=600)


async def pull(caller: McpCaller, endpoint: str, source: Path, target: Path) -> None:
    """Pull a file or a tree."""
    await caller.call("artifact_pull", endpoint=endpoint, local_path=str(target), remote_path=str(source), wait_s=600)


async def tree(world: World) -> list[Row]:
    """2000 small files each way, and pushed again, against `scp -r` and `rsync -a`."""
    source, target, other = make_tree(world), world.bulk / "tree-copy", world.bulk / "tree-rsync"
    ssh, cold, samples = world.ssh, world.cold, world.count(15, 4)
    rows: list[Row] = []
    async with world.over_mcp() as mcp:
        await push(mcp, "near", source, target)
        pushes: dict[str, Side] = {
            "ours": lambda: push(mcp, "near", source, target),
            "scp": lambda: cold.run(cold.scp("-r", str(source), f":{target}")),
            "rsync": lambda: ssh.run(ssh.rsync(f"{source}/", f":{target}/")),
        }
        pulls: dict[str, Side] = {
            "ours": lambda: pull(mcp, "near", source, target),
            "scp": lambda: cold.run(cold.scp("-r", f":{source}", str(target))),
            "rsync": lambda: ssh.run(ssh.rsync(f":{source}/", f"{target}/")),
        }
        for way, sides in (("push", pushes), ("pull", pulls)):
            taken = await in_turn(sides, samples, (target,))
            ours = median(taken["ours"])
            rows.append(Row(f"{way} 2000 files", ours, median(taken["scp"]), 1 / 8, "scp -r (8 x its speed)"))
            rows.append(
                Row(f"{way} 2000 files", ours, median(taken["rsync"]), 1 / 1.2, "rsync -a, warm (1.2 x its speed)")
            )
        clear(target, other)
        await push(mcp, "near", source, target)
        await ssh.run(ssh.rsync(f"{source}/", f":{other}/"))
        again: dict[str, Side] = {
            "ours": lambda: push(mcp, "near", source, target),
            "rsync": lambda: ssh.run(ssh.rsync(f"{source}/", f":{other}/")),
        }
        taken = await in_turn(again, samples)
        rows.append(
            Row("push 2000 files again", median(taken["ours"]), median(taken["rsync"]), 0.4, "rsync -a again, warm")
        )
    clear(target, other)
    return rows


async def far_tree(world: World) -> list[Row]:
    """The same tree with a round trip of 20 ms: at most six round trips more."""
    source, target, samples = make_tree(world), world.bulk / "tree-copy", world.count(15, 4)
    rows: list[Row] = []
    with world.delayed():
        async with world.over_mcp() as mcp:
            for name, move in (("push", push), ("pull", pull)):
                for endpoint in ("near", "far"):
                    clear(target)
                    await move(mcp, endpoint, source, target)
                sides: dict[str, Side] = {
                    "near": lambda move=move: move(mcp, "near", source, target),
                    "far": lambda move=move: move(mcp, "far", source, target),
                }
                taken = await in_turn(sides, samples, (target,))
                far, near = median(taken["far"]), median(taken["near"])
                row = Row(f"20 ms away: {name} 2000 files", far, near, 1.0, "ours, near", extra=6 * ROUND_TRIP_MS)
                rows.append(row)
    clear(target)
    return rows


async def memory(world: World) -> list[Row]:
    """The largest resident size of the server process while 200 MB pass, above that of an idle one."""
    source, target = make_file(world), world.bulk / "big-copy"
    rows: list[Row] = []
    for name, move in (("push", push), ("pull", pull)):
        idle: list[float] = []
        peak: list[float] = []
        for _ in range(world.count(5, 2)):
            async with world.over_mcp() as mcp:
                await mcp.call("remote_bash", endpoint="near", command="true")
                idle.append(resident_mb(mcp.pid))
                await move(mcp, "near", source, target)
                peak.append(peak_mb(mcp.pid))
            clear(target)
        row = Row(f"memory of the client, {name} 200 MB, worst", max(peak), max(idle), 1.0, "idle", "MB", MEMORY_MB)
        rows.append(row)
    return rows


def resident_mb(pid: int) -> float:
    """Return the present resident size of a process, and let its peak begin anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", "utf-8")
    return _status(pid, "VmRSS:")


def peak_mb(pid: int) -> float:
    """Return the largest resident size since then."""
    return _status(pid, "VmHWM:")


def _status(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

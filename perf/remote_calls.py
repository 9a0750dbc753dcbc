"""Small calls: a command, a file, many at once, a far endpoint, the first call."""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from figures import Row, Side, alternate, median, p99, timed
from remote_world import Caller, McpCaller, World, echo_round_trip_ms

BLOCK = 50
Call = Callable[..., Awaitable[Any]]


@asynccontextmanager
async def both(world: World) -> AsyncGenerator[tuple[McpCaller, Caller]]:
    """Give a caller over MCP and one in this process, both warm."""
    async with world.over_mcp() as mcp, world.in_process() as here:
        for caller in (mcp, here):
            await caller.call("remote_bash", endpoint="near", command="true")
        yield mcp, here


async def bash(world: World) -> list[Row]:
    """`true`."""
    async with both(world) as (mcp, here):
        taken = await alternate(
            {
                "mcp": lambda: mcp.call("remote_bash", endpoint="near", command="true"),
                "here": lambda: here.call("remote_bash", endpoint="near", command="true"),
                "ssh": lambda: world.ssh.run(world.ssh.argv("true")),
            },
            world.count(400, 100),
            BLOCK,
        )
    return [
        Row("bash true, MCP, median", median(taken["mcp"]), median(taken["ssh"]), 0.6, "ssh, warm master"),
        Row("bash true, MCP, p99", p99(taken["mcp"]), p99(taken["ssh"]), 1.0, "ssh, warm master"),
        Row("bash true, in process, median", median(taken["here"]), median(taken["ssh"]), 0.3, "ssh, warm master"),
    ]


async def read(world: World) -> list[Row]:
    """A file of 100 lines."""
    path = world.folder / "hundred-lines.txt"
    path.write_text("".join(f"line {number} of a file that somebody reads\n" for number in range(100)), "utf-8")
    async with both(world) as (mcp, here):
        taken = await alternate(
            {
                "mcp": lambda: mcp.call("remote_read", endpoint="near", file_path=str(path)),
                "here": lambda: here.call("remote_read", endpoint="near", file_path=str(path)),
                "ssh": lambda: world.ssh.run(world.ssh.argv("cat", str(path))),
            },
            world.count(400, 100),
            BLOCK,
        )
    return [
        Row("read 100 lines, MCP, median", median(taken["mcp"]), median(taken["ssh"]), 0.25, "ssh cat, warm master"),
        Row("read 100 lines, in process", median(taken["here"]), median(taken["ssh"]), 0.12, "ssh cat, warm master"),
    ]


async def many(world: World) -> list[Row]:
    """100 commands at once over one connection; every one of them must succeed."""

    async def one(call: Call, command: str) -> None:
        await call("remote_bash", endpoint="near", command=command)

    async def at_once(call: Call, command: str) -> None:
        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(one, call, command)

    async def in_turn(call: Call, command: str) -> None:
        for _ in range(100):
            await one(call, command)

    async def ssh_in_turn() -> None:
        for _ in range(100):
            await world.ssh.run(world.ssh.argv("true"))

    async with both(world) as (mcp, _here):
        sleeping = await alternate(
            {"ours": lambda: at_once(mcp.call, "sleep 0.05"), "turn": lambda: in_turn(mcp.call, "sleep 0.05")},
            world.count(5, 2),
            1,
        )
        busy = await alternate({"ours": lambda: at_once(mcp.call, "true"), "ssh": ssh_in_turn}, world.count(9, 3), 1)
    return [
        Row("100 x sleep 0.05 at once", median(sleeping["ours"]), median(sleeping["turn"]), 0.15, "ours in turn"),
        Row("100 x true at once", median(busy["ours"]), median(busy["ssh"]), 0.5, "100 x ssh in turn, warm master"),
    ]


async def far(world: World) -> list[Row]:
    """One round trip of 20 ms for each small call."""
    near_ms, far_ms = await anyio.to_thread.run_sync(lambda: echo_round_trip_ms(world.count(200, 100)))
    print(f"delay proxy: a raw echo takes {far_ms:.2f} ms through it and {near_ms:.2f} ms without it", flush=True)
    path = world.bulk / "far.txt"
    path.write_text("".join(f"line {number}\n" for number in range(100)), "utf-8")
    path_text, words = str(path), ["line 50", "LINE 50"]

    async def edit(call: Call) -> None:
        words.reverse()
        await call("remote_edit", endpoint="far", file_path=path_text, old_string=words[1], new_string=words[0])

    def sides(kind: str, call: Call) -> dict[str, Side]:
        return {
            f"bash true, {kind}": lambda: call("remote_bash", endpoint="far", command="true"),
            f"read 100 lines, {kind}": lambda: call("remote_read", endpoint="far", file_path=path_text),
            f"edit, {kind}": lambda: edit(call),
        }

    with world.delayed():
        async with world.over_mcp() as mcp, world.in_process() as here:
            asked = {**sides("in process", here.call), **sides("MCP", mcp.call)}
            taken = await alternate(asked, world.count(200, 50), BLOCK)
    return [Row(f"20 ms away: {name}", median(found), far_ms, 1.2, "raw echo") for name, found in taken.items()]


async def first(world: World) -> list[Row]:
    """The first call of a process, with a worker that is installed already."""
    await _first_in_process(world)
    taken: dict[str, list[float]] = {"ours": [], "ssh": []}
    for _ in range(world.count(30, 6)):
        taken["ours"].append(await _first_in_process(world))
        taken["ssh"].append(await timed(lambda: world.cold.run(world.cold.argv("true"))))
    await _first_over_mcp(world)
    over_mcp = [await _first_over_mcp(world) for _ in range(world.count(15, 4))]
    return [
        Row("first bash, in process", median(taken["ours"]), median(taken["ssh"]), 0.6, "ssh true, no master"),
        Row("first bash, MCP, after initialize", median(over_mcp), 800.0, 1.0, "0.8 s"),
    ]


async def _first_in_process(world: World) -> float:
    """Connect, start the worker and run a command; ending the connection is not counted."""
    async with world.in_process() as here:
        begin = time.perf_counter()
        await here.call("remote_bash", endpoint="near", command="true")
        return (time.perf_counter() - begin) * 1000


async def _first_over_mcp(world: World) -> float:
    async with world.over_mcp() as mcp:
        begin = time.perf_counter()
        await mcp.call("remote_bash", endpoint="near", command="true")
        return (time.perf_counter() - begin) * 1000

"""What the demonstration does: a simulated container, our server over stdio, one comparison, a report."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import orjson
from mcp import Client, StdioServerParameters
from mcp.shared.dispatcher import ProgressFnT

from vaws_mcp.demo.failures import DemoFailed

STATES = ("baseline=main", "candidate=slow-decode")
BENCH_ARGS = (
    *("--dataset-name", "random", "--random-input-len", "64", "--random-output-len", "48"),
    *("--num-prompts", "24", "--max-concurrency", "8", "--ignore-eos"),
)
RUNS, WARMUPS = 3, 1
GIVE_UP_S = 60.0
SIM_START_S = 30.0
# Small declared noise: the figure is meant to be recognised, not to be fought for.
SIM_OPTIONS = ("--noise-run", "0.005", "--noise-launch", "0.005", "--drift", "0", "--load-seconds", "1.5")

Report = ProgressFnT


@dataclass(frozen=True)
class Surroundings:
    """Where the demonstration runs. ``endpoint`` None means a simulated container of its own."""

    state_dir: Path
    endpoint: str | None
    model: str | None
    states: tuple[str, ...]


async def tell(where: Surroundings, report: Report, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the whole story and return the comparison's answer.

    Raises: DemoFailed.
    """
    async with AsyncExitStack() as stack:
        endpoint, model = where.endpoint, where.model
        if endpoint is None:
            say("starting a simulated container with 8 NPUs")
            facts = await anyio.to_thread.run_sync(start_sim, where.state_dir)
            stack.push_async_callback(anyio.to_thread.run_sync, stop_sim, where.state_dir)
            endpoint, model = "sim", str(facts["model"])
        say("starting the MCP server (remote-dev mcp) as a client does")
        client = await stack.enter_async_context(Client(server_command(where.state_dir)))
        return await _compare(client, endpoint, model or "", where.states, report, say)


async def _compare(
    client: Client, endpoint: str, model: str, states: tuple[str, ...], report: Report, say: Callable[[str], None]
) -> dict[str, Any]:
    tools = await client.list_tools()
    say(f"it offers {len(tools.tools)} tools; creating a task and calling bench_compare")
    task = await call(client, "task_create", {"slug": "demo", "endpoint": endpoint})
    context_file = str(task["context_file"])
    try:
        answer = await _measure(client, context_file, model, states, report)
    except BaseException:
        with anyio.CancelScope(shield=True), anyio.move_on_after(GIVE_UP_S):
            await client.call_tool("task_finish", {"context_file": context_file, "stop": True})
        raise
    await call(client, "task_finish", {"context_file": context_file})
    return answer


async def _measure(
    client: Client, context_file: str, model: str, states: tuple[str, ...], report: Report
) -> dict[str, Any]:
    """Call ``bench_compare``, and ``run_wait`` for as long as the answer is `running`."""
    arguments: dict[str, Any] = {
        "context_file": context_file,
        "model": model,
        "state": list(states),
        "bench_args": list(BENCH_ARGS),
        "runs": RUNS,
        "warmup_runs": WARMUPS,
    }
    answer = await call(client, "bench_compare", arguments, report)
    while answer["status"] == "running":
        answer = await call(client, "run_wait", {"run_id": answer["run_id"]}, report)
    return answer if "comparison" in answer else answer["result"]


async def call(client: Client, tool: str, arguments: dict[str, Any], report: Report | None = None) -> dict[str, Any]:
    """Call a tool and return its answer.

    Raises: DemoFailed when its outcome is not success.
    """
    result = await client.call_tool(tool, arguments, progress_callback=report)
    text = getattr(result.content[0], "text", "{}") if result.content else "{}"
    answer: dict[str, Any] = orjson.loads(text)
    if answer.get("outcome") != "success":
        raise DemoFailed(tool, answer)
    return answer


def server_command(state_dir: Path) -> StdioServerParameters:
    """Return how a client starts our server."""
    env = {**os.environ, "VAWS_STATE_DIR": str(state_dir)}
    return StdioServerParameters(command=sys.executable, args=["-m", "vaws_mcp", "mcp"], env=env)


def start_sim(state_dir: Path) -> dict[str, Any]:
    """Start the simulated container with our own command and return what it printed.

    Raises: DemoFailed.
    """
    return _own_command(state_dir, "sim-start", "--detach", *SIM_OPTIONS)


def stop_sim(state_dir: Path) -> None:
    """Stop the simulated container."""
    _own_command(state_dir, "sim-stop")


def _own_command(state_dir: Path, *words: str) -> dict[str, Any]:
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "vaws_mcp", *words],
        env={**os.environ, "VAWS_STATE_DIR": str(state_dir)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SIM_START_S,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit code {done.returncode}"
        raise DemoFailed(f"{words[0]} after {time.monotonic() - begin:.1f} s", {"summary": said})
    return orjson.loads(done.stdout)

"""Calls the operations under test, in this process or in one of its own that can be killed.

Run as a program: ``callers.py STATE_DIR ENDPOINT ARGUMENTS`` calls remote_bash, prints the answer and waits.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from vaws_mcp.core.context import Context, Resources
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.workspace.jobs import operations as jobs
from vaws_mcp.workspace.shell.operations import remote_bash

Answer = dict[str, Any]
OPERATIONS = {
    one.name: one for one in (remote_bash, jobs.job_status, jobs.job_tail, jobs.job_stdin, jobs.job_stop, jobs.job_list)
}
BOUND_S = 20.0


class Caller:
    """Keeps its connection between calls."""

    def __init__(self, ctx: Context, endpoint: str) -> None:
        self.ctx = ctx
        self.endpoint = endpoint

    async def call(self, name: str, **arguments: Any) -> Answer:
        return await invoke(OPERATIONS[name], {"endpoint": self.endpoint, **arguments}, self.ctx)

    async def bash(self, command: str, **arguments: Any) -> Answer:
        return await self.call("remote_bash", command=command, **arguments)

    async def start(self, command: str, **arguments: Any) -> str:
        """Start a job at once and return its id."""
        answer = await self.bash(command, yield_time_ms=0, **arguments)
        assert answer["status"] == "running", answer
        return str(answer["job_id"])

    async def read_on(
        self, job_id: str, offset: int = 0, until: str | None = None, **arguments: Any
    ) -> tuple[str, int]:
        """Read from an offset to the end, or until a text has come; returns the text and the next offset."""
        text = ""
        limit = time.monotonic() + BOUND_S
        while time.monotonic() < limit:
            page = await self.call("job_tail", job_id=job_id, offset=offset, wait_ms=1000, **arguments)
            if page.get("error", {}).get("code") == "outcome_unknown":
                continue  # the connection was lost; this call is safe to repeat
            assert page["outcome"] == "success", page
            assert page["offset"] == offset
            text, offset = text + page["content"], page["next_offset"]
            if page["eof"] or (until is not None and until in text):
                return text, offset
        raise AssertionError(f"{job_id} did not get so far: {text!r}")

    async def ended(self, job_id: str) -> Answer:
        """Wait for the end of a job."""
        limit = time.monotonic() + BOUND_S
        while time.monotonic() < limit:
            found = await self.call("job_status", job_id=job_id)
            if found["state"] != "running":
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"{job_id} did not end")


@asynccontextmanager
async def caller(state_dir: Path, endpoint: str) -> AsyncGenerator[Caller]:
    async with Resources() as resources:
        yield Caller(Context(state_dir=state_dir, resources=resources), endpoint)


def start_elsewhere(state_dir: Path, endpoint: str, **arguments: Any) -> tuple[subprocess.Popen[str], Answer]:
    """Let a process of its own call remote_bash; returns the process, which waits then, and the answer."""
    argv = [sys.executable, __file__, str(state_dir), endpoint, json.dumps(arguments)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a process as a crash would."""
    process.kill()
    process.wait(BOUND_S)
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


async def main(state_dir: str, endpoint: str, arguments: str) -> None:
    async with caller(Path(state_dir), endpoint) as mine:
        print(json.dumps(await mine.bash(**json.loads(arguments))), flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

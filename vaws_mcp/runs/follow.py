"""Waiting for a run from any process."""

import time

import anyio

from vaws_mcp.core.context import Context
from vaws_mcp.core.progress import ProgressEvent
from vaws_mcp.runs.records import RunDir, State
from vaws_mcp.store.events import Follower

FIRST_LOOK_S = 0.02
SLOWEST_LOOK_S = 0.5


async def follow(ctx: Context, run: RunDir, wait_s: float | None, *, replay: bool) -> State:
    """Wait until a run is no longer under way, passing its progress on; return the state then.

    ``wait_s`` None waits as long as the run lives. With ``replay`` every event is passed on, else only the newest old
    one and what follows.
    """
    follower = Follower(run.events)
    if not replay:
        for event in list(follower.new_events())[-1:]:
            await ctx.sink(ProgressEvent.from_dict(event))
    end = None if wait_s is None else time.monotonic() + wait_s
    pause = FIRST_LOOK_S
    while True:
        state = run.state()
        fresh = list(follower.new_events())
        for event in fresh:
            await ctx.sink(ProgressEvent.from_dict(event))
        left = None if end is None else end - time.monotonic()
        if state in ("finished", "interrupted") or (left is not None and left <= 0):
            return state
        pause = FIRST_LOOK_S if fresh else min(pause * 1.5, SLOWEST_LOOK_S)
        await anyio.sleep(pause if left is None else min(pause, left))


def last_event(run: RunDir) -> ProgressEvent | None:
    """Return the newest progress event of a run."""
    newest = list(Follower(run.events).new_events())[-1:]
    return ProgressEvent.from_dict(newest[0]) if newest else None

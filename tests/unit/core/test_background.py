"""Background work outlives the call that starts it, ends with the resources, and harms nobody when it fails."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from vaws_mcp.core.context import Resources


@pytest.mark.asyncio
async def test_background_work_outlives_its_caller_and_ends_before_what_it_uses_is_closed() -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        try:
            order.append(f"{name} began")
            await anyio.sleep_forever()
        finally:
            order.append(f"{name} ended")

    async def close() -> None:
        order.append("closed")

    async with Resources() as resources:
        resources.on_close(close)
        async with anyio.create_task_group() as call:
            call.start_soon(anyio.lowlevel.checkpoint)
            resources.start_soon(work, "work")
        await anyio.wait_all_tasks_blocked()
    assert order == ["work began", "work ended", "closed"]


@pytest.mark.asyncio
async def test_an_error_in_the_background_is_logged_and_ends_only_itself(caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    async def fail() -> None:
        raise ValueError("a bug")

    async def work() -> None:
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        done.append("done")

    async with Resources() as resources:
        resources.start_soon(fail)
        resources.start_soon(work)
        await anyio.wait_all_tasks_blocked()
    assert done == ["done"]
    assert "a bug" in caplog.text


@pytest.mark.asyncio
async def test_an_error_of_the_owner_passes_unchanged() -> None:
    async def own() -> None:
        async with Resources() as resources:
            resources.start_soon(anyio.sleep_forever)
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        await own()

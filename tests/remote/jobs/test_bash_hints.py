"""Hints say what is so."""

from __future__ import annotations

import pytest
from callers import caller

from tests.connect.places import Place


@pytest.mark.asyncio(loop_scope="function")
async def test_a_hint_does_not_promise_output_that_was_dropped(place: Place) -> None:
    async with caller(place.state_dir, place.kind) as mine:
        whole = await mine.bash("head -c 100000 /dev/zero | tr '\\0' x")
        assert whole["hint"].startswith("The whole output is kept")
        cut = await mine.bash("head -c 2000000 /dev/zero | tr '\\0' x", log_limit_bytes=1 << 20)
    dropped = 2_000_000 - (1 << 20)
    assert cut["dropped_bytes"] == dropped
    assert f"without its last {dropped} bytes" in cut["hint"]

"""A tree has one holder: a second comparison in it is blocked and told by whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from vaws_mcp.core.failures import Blocked
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.source.lock import tree_held

HERE = EndpointConfig(name="a", host="h")


def test_a_second_holder_is_blocked_and_told_by_whom(tmp_path: Path) -> None:
    again = HERE.model_copy(update={"name": "same-host"})
    with (
        tree_held(tmp_path, HERE, "/tree", "run-1"),
        pytest.raises(Blocked) as caught,
        tree_held(tmp_path, again, "/tree", "run-2"),
    ):
        pytest.fail("two holders at once")
    assert caught.value.code == "tree_busy"
    assert "run-1" in caught.value.message
    assert "run-1" in str(caught.value.hint)


def test_another_tree_and_a_released_tree_are_free(tmp_path: Path) -> None:
    with tree_held(tmp_path, HERE, "/tree", "run-1"), tree_held(tmp_path, HERE, "/other", "run-2"):
        pass
    with tree_held(tmp_path, HERE, "/tree", "run-3"):
        assert [path.suffix for path in (tmp_path / "locks").iterdir()].count(".holder") == 2

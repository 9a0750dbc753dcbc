"""What crosses the wire beside the packets that are needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connect.places import open_box, open_server


@pytest.mark.asyncio
async def test_no_empty_packets_are_sent_between_the_others(tmp_path: Path, home: Path, state_dir: Path) -> None:
    with open_server(tmp_path / "server", home, ("LogLevel DEBUG3",)) as server:
        server.register(state_dir)
        async with open_box(state_dir, "box") as box:
            answer = await box.bash("echo here")
        assert answer["stdout"] == "here\n"
        log = server.facts.log.read_text("utf-8", "replace")
    _login, opened, session = log.partition("receive packet: type 90")
    assert opened
    assert session.count("receive packet: type 98") >= 1
    assert "SSH2_MSG_IGNORE" not in session

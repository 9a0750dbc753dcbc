"""A real OpenSSH server and this machine, and a home directory that is never the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connect.places import Server, open_server


@pytest.fixture
def server(tmp_path: Path, module_home: Path) -> Iterator[Server]:
    """A real OpenSSH server of this test alone."""
    with open_server(tmp_path / "server", module_home) as opened:
        opened.register(tmp_path / "state")
        yield opened

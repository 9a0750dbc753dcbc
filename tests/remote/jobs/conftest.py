"""Endpoints on which jobs are started, and callers that keep their own connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connect.places import KINDS, Place, Server, open_place, open_server


@pytest.fixture(scope="module", params=KINDS)
def place(
    request: pytest.FixtureRequest, module_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """An endpoint that works: a real OpenSSH server, the simulated container, and this machine."""
    with open_place(str(request.param), tmp_path_factory.mktemp("place"), module_home) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(module_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real OpenSSH server that the tests of a module share."""
    with open_server(tmp_path_factory.mktemp("server"), module_home) as opened:
        yield opened


@pytest.fixture
def state_dir(server: Server, tmp_path: Path) -> Path:
    """A state directory in which the server is named ``box``."""
    server.register(tmp_path / "state")
    return tmp_path / "state"

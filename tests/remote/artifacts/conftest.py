from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from moving import Mover

from tests.connect.places import Server, open_server


@pytest.fixture(scope="module")
def server(module_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real OpenSSH server that the tests of a module share."""
    with open_server(tmp_path_factory.mktemp("server"), module_home) as opened:
        yield opened


@pytest.fixture
def mover(server: Server, tmp_path: Path) -> Mover:
    """Calls the operations on the server, named ``box``; each ``open`` has connections of its own."""
    server.register(tmp_path / "state")
    return Mover(tmp_path / "state", "box")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory for what lies on this side."""
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A directory for what lies on the endpoint, which is this machine too."""
    (tmp_path / "there").mkdir()
    return tmp_path / "there"

"""A real OpenSSH server and this machine, and a home directory that is never the user's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
# The OpenSSH server is started by the code of the live tests, which names its own neighbours plainly.
sys.path += [str(PROJECT), str(PROJECT / "tests" / "live")]

from tests.connect.places import Place, Server, make_home, open_place, open_server  # noqa: E402


@pytest.fixture(scope="module")
def module_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        yield make_home(patch, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module", params=["sshd", "local"])
def place(
    request: pytest.FixtureRequest, module_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """A real OpenSSH server, and this machine."""
    with open_place(str(request.param), tmp_path_factory.mktemp("place"), module_home) as opened:
        yield opened


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_home(monkeypatch, tmp_path / "home")


@pytest.fixture
def server(tmp_path: Path, home: Path) -> Iterator[Server]:
    """An OpenSSH server of this test alone."""
    with open_server(tmp_path / "server", home) as opened:
        yield opened

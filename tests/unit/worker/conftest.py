from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from npu_world import Caller, World
from worker_client import Client, Start


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Start workers whose home directory is ours; all are ended with the test."""
    clients: list[Client] = []

    def begin(argv: list[str] | None = None, cwd: str = "/", **env: str) -> Client:
        client = Client({"HOME": str(home), **env}, argv, cwd)
        clients.append(client)
        return client

    yield begin
    for client in clients:
        client.close()


@pytest.fixture
def worker(start: Start) -> Client:
    return start()


@pytest.fixture
def world(tmp_path: Path, home: Path) -> World:
    """A machine with four simulated devices."""
    return World(tmp_path, home)


@pytest.fixture
def caller(world: World, start: Start) -> Iterator[Caller]:
    """A caller on that machine; what a test leaves is stopped."""
    calls = Caller(start(**world.env), world)
    yield calls
    calls.end_all()

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from worker_client import Client

Start = Callable[..., Client]


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

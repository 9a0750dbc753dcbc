"""Workers and endpoints for the search tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[3]
sys.path += [str(PROJECT), str(PROJECT / "tests" / "live")]

from tests.unit.worker.worker_client import Client  # noqa: E402


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    client = Client({"HOME": str(tmp_path_factory.mktemp("home"))})
    yield client
    client.close()

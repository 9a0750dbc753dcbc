"""A web service to forward to, and places to forward from."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from forward_world import Service, Web


@pytest.fixture
def web() -> Iterator[Service]:
    Web.hold = threading.Event()
    with Service(("127.0.0.1", 0), Web) as service:
        thread = threading.Thread(target=service.serve_forever, args=(0.01,))
        thread.start()
        yield service
        Web.hold.set()
        service.shutdown()
        thread.join(5)

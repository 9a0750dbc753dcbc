"""A web service to forward to."""

from __future__ import annotations

import hashlib
import http.server
import threading
from typing import Any

BIG = bytes(range(256)) * (50 << 12)


class Web(http.server.BaseHTTPRequestHandler):
    """Answers ``/big`` with 50 MiB, a POST with the digest of what it got, and ``/hold`` only when it is let go."""

    protocol_version = "HTTP/1.1"
    hold = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/hold":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"first")
            self.wfile.flush()
            self.hold.wait(20)
            return
        self._answer(BIG if self.path == "/big" else self.path.encode())

    def do_POST(self) -> None:
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left and (chunk := self.rfile.read(min(left, 1 << 20))):
            digest.update(chunk)
            left -= len(chunk)
        self._answer(digest.hexdigest().encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing."""


class Service(http.server.ThreadingHTTPServer):
    """Accepts many at once and does not wait for clients that keep their connection."""

    request_queue_size = 128
    daemon_threads = True
    block_on_close = False
    connections = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""

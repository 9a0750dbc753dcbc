from __future__ import annotations

import http.server
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from worker_client import Client, Start, WorkerError

from vaws_mcp.worker.engine.facts_probe import without_user_info
from vaws_mcp.worker.facts.sockets import parse_listeners


def test_the_probe_tells_what_the_endpoint_is(start: Start) -> None:
    result = start(http_proxy="http://me:secret@proxy:3128").call("probe").result
    assert result["kernel"] == os.uname().release
    assert result["uid"] == os.getuid()
    assert result["cpus"] == os.cpu_count()
    assert result["tools"]["bash"]
    assert result["memory_total_bytes"] > 1 << 20
    assert result["disk_free_bytes"]["home"] > 0
    assert result["pid_namespace"].startswith("pid:[")
    assert result["proxies"]["http_proxy"] == "http://proxy:3128"
    assert "secret" not in str(result)


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("http://u:p@h:1/x", "http://h:1/x"),
        ("u:p@h:1", "h:1"),
        ("http://h:1", "http://h:1"),
        ("http://u:p@x@h:1", "http://h:1"),
        ("localhost,127.0.0.1", "localhost,127.0.0.1"),
    ],
)
def test_user_info_leaves_proxy_addresses(url: str, clean: str) -> None:
    assert without_user_info(url) == clean


class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Path", self.path)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found.server_address[1]
        found.shutdown()
        thread.join(5)


def test_http_goes_straight_to_the_service(start: Start, server: int) -> None:
    worker = start(http_proxy="http://127.0.0.1:1", HTTP_PROXY="http://127.0.0.1:1")
    params = {"method": "POST", "port": server, "path": "/v1/x", "headers": {"Content-Type": "text/plain"}}
    answer = worker.call("http", params, b"\xff\0body")
    assert (answer.result["status"], answer.result["error"], answer.body) == (404, None, b"\xff\0body")
    assert answer.result["headers"]["x-path"] == "/v1/x"
    cut = worker.call("http", {**params, "max_bytes": 2}, b"12345")
    assert (cut.body, cut.result["truncated"]) == (b"12", True)


def test_a_refused_connection_is_a_result(worker: Client) -> None:
    port = worker.call("free_port").result["port"]
    result = worker.call("http", {"port": port, "path": "/health"}).result
    assert (result["status"], result["error"]) == (None, "refused")


def test_a_silent_service_times_out(worker: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        result = worker.call("http", {"port": silent.getsockname()[1], "timeout_s": 0.1}).result
    assert (result["status"], result["error"]) == (None, "timeout")


def test_a_cancel_ends_a_request_to_a_silent_service(worker: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        number = worker.start("http", {"port": silent.getsockname()[1], "timeout_s": 100})
        connection, _ = silent.accept()
        with connection:
            connection.recv(1)
            worker.send({"id": number, "cancel": True})
            with pytest.raises(WorkerError, match="cancelled"):
                worker.finish(number)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_the_owner_of_a_port_is_found(worker: Client, family: socket.AddressFamily) -> None:
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=family) as listener:
        port = listener.getsockname()[1]
        facts = worker.call("ports", {"ports": [port]}).result["ports"][str(port)]
        assert facts["listening"] is True
        assert facts["pids"] == [os.getpid()]
        assert facts["sids"] == [os.getsid(0)]
    facts = worker.call("ports", {"ports": [port]}).result["ports"][str(port)]
    assert facts == {"listening": False, "pids": [], "sids": [], "bindable": True}


def test_a_port_in_use_cannot_be_bound(worker: Client) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert worker.call("ports", {"ports": [port]}).result["ports"][str(port)]["bindable"] is False


def test_only_listening_sockets_count() -> None:
    text = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0\n"
        "   1: 0100007F:1F41 0100007F:1F40 01 00000000:00000000 00:00000000 00000000     0        0 778 1 0\n"
        "   torn line\n"
    )
    assert parse_listeners(text) == {8000: {777}}

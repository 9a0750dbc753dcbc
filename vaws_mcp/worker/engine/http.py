"""``http``: one HTTP request from the endpoint to a service on it, never through a proxy."""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from typing import Any, Dict, List, Optional, Tuple

from ..refusal import bad_request
from ..request import Answer, Request

_CHUNK_BYTES = 1 << 16
_LONGEST_WAIT_S = 600.0


def http_request(request: Request) -> Answer:
    """Send a request and answer with status, headers and body; a service that cannot be reached is a result too."""
    params = request.params
    port = params.integer("port", 0)
    if not 1 <= port <= 65535:
        raise bad_request("http: port must be between 1 and 65535")
    headers = {name: str(value) for name, value in params.mapping("headers").items()}
    max_bytes = params.integer("max_bytes", 1 << 20)
    host = params.optional_text("host") or "127.0.0.1"
    timeout_s = min(params.seconds("timeout_s", 30.0), _LONGEST_WAIT_S)
    started = time.monotonic()
    limit = started + timeout_s if request.deadline is None else min(started + timeout_s, request.deadline)
    connection = http.client.HTTPConnection(host, port, timeout=max(0.01, limit - started))
    result: Dict[str, Any] = {"status": None, "headers": {}, "error": None, "truncated": False}
    body = b""
    request.on_cancel = lambda: _hang_up(connection)
    try:
        method = params.optional_text("method") or "GET"
        connection.request(method, params.optional_text("path") or "/", body=request.body or None, headers=headers)
        response = connection.getresponse()
        result["status"] = response.status
        result["headers"] = {name.lower(): value for name, value in response.getheaders()}
        body, result["truncated"], result["error"] = _body(request, response, max_bytes, limit)
    except (OSError, http.client.HTTPException, ValueError) as error:
        request.check()
        result["error"] = _name(error)
        result["message"] = f"{type(error).__name__}: {error}"
    finally:
        request.on_cancel = None
        connection.close()
    result["elapsed_ms"] = round((time.monotonic() - started) * 1000, 3)
    return result, body


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """Wake the thread that waits for the service."""
    with contextlib.suppress(OSError, AttributeError):  # not connected yet, or no more
        connection.sock.shutdown(socket.SHUT_RDWR)


def _body(
    request: Request, response: http.client.HTTPResponse, max_bytes: int, limit: float
) -> Tuple[bytes, bool, Optional[str]]:
    parts: List[bytes] = []
    size = 0
    while size <= max_bytes:
        request.check()
        if time.monotonic() >= limit:
            return b"".join(parts)[:max_bytes], True, "timeout"
        chunk = response.read1(_CHUNK_BYTES)
        if not chunk:
            return b"".join(parts), False, None
        parts.append(chunk)
        size += len(chunk)
    return b"".join(parts)[:max_bytes], True, None


def _name(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, socket.timeout):
        return "timeout"
    if isinstance(error, socket.gaierror):
        return "unknown_host"
    if isinstance(error, (ConnectionError, http.client.RemoteDisconnected, http.client.IncompleteRead)):
        return "disconnected"
    if isinstance(error, OSError):
        return "unreachable"
    return "bad_http"

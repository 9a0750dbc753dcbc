"""A small HTTP/1.1 server on asyncio streams, enough for an OpenAI-compatible API and light to start."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"} | {
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
MAX_HEAD_BYTES = 64 << 10
MAX_BODY_BYTES = 64 << 20
IDLE_S = 75.0


@dataclass
class Request:
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    peer: str = ""


@dataclass
class Response:
    """One whole answer."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"


@dataclass
class Stream:
    """An answer of server-sent events, written as they come."""

    writer: asyncio.StreamWriter
    started: bool = field(default=False)

    async def send(self, data: bytes) -> None:
        """Write one event; raises ConnectionError when the client is gone."""
        if self.writer.is_closing():
            raise ConnectionResetError("client closed the stream")
        if not self.started:
            self.started = True
            self.writer.write(_head(200, "text/event-stream; charset=utf-8") + b"transfer-encoding: chunked\r\n\r\n")
        event = b"data: " + data + b"\n\n"
        self.writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await self.writer.drain()

    def end(self) -> None:
        """Write the end of the stream."""
        self.writer.write(b"0\r\n\r\n")


Handler = Callable[[Request, Stream], Awaitable[Response | None]]


class BadRequestError(Exception):
    """The bytes on the connection are no request we can answer; carries the status."""

    def __init__(self, status: int) -> None:
        super().__init__(REASONS[status])
        self.status = status


def json_response(value: Any, status: int = 200) -> Response:
    """Return a JSON answer in the compact form FastAPI writes."""
    return Response(status, json.dumps(value, separators=(",", ":")).encode())


def _head(status: int, content_type: str) -> bytes:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    text = f"HTTP/1.1 {status} {REASONS[status]}\r\ndate: {date}\r\nserver: uvicorn\r\n"
    return (text + (f"content-type: {content_type}\r\n" if content_type else "")).encode()


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read one request, or None when the client closed the connection.

    Raises: BadRequestError for malformed or oversized input.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError:
        raise BadRequestError(400) from None
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3:
        raise BadRequestError(400)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    return Request(parts[0], parts[1].partition("?")[0], headers, await _read_body(reader, headers))


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    length = headers.get("content-length", "0")
    if "chunked" in headers.get("transfer-encoding", "") or not length.isdigit():
        raise BadRequestError(400)
    if int(length) > MAX_BODY_BYTES:
        raise BadRequestError(413)
    return await reader.readexactly(int(length))


class HttpServer:
    """Serves connections of one listening socket with one handler."""

    def __init__(self, handler: Handler, access_log: Callable[[Request, int], None]) -> None:
        self.handler = handler
        self.access_log = access_log
        self.server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Begin to accept connections."""
        self.server = await asyncio.start_server(self._serve, sock=listener, limit=MAX_HEAD_BYTES)

    def close(self) -> None:
        """Close the port. Connections end with the process."""
        if self.server:
            self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass
        except BadRequestError as error:
            writer.write(_head(error.status, "") + b"content-length: 0\r\nconnection: close\r\n\r\n")
        finally:
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _answer(self, request: Request, stream: Stream) -> Response | None:
        try:
            return await self.handler(request, stream)
        except ConnectionError:
            raise
        except Exception as error:
            if stream.started:
                raise ConnectionResetError("the stream broke off") from error
            return json_response({"error": {"message": repr(error), "type": "InternalServerError", "code": 500}}, 500)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await asyncio.wait_for(read_request(reader), IDLE_S)
        if request is None:
            return False
        address: Any = writer.get_extra_info("peername")
        request.peer = f"{address[0]}:{address[1]}"
        stream = Stream(writer)
        response = await self._answer(request, stream)
        status = 200 if response is None else response.status
        self.access_log(request, status)
        if response is None:
            stream.end()
        else:
            head = _head(status, response.content_type if response.body else "")
            writer.write(head + b"content-length: %d\r\n\r\n" % len(response.body) + response.body)
        await writer.drain()
        return request.headers.get("connection", "").lower() != "close"

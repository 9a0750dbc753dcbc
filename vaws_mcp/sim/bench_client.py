"""The load generator's HTTP client: one connection per request on asyncio streams, so that it costs next to nothing."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

REQUEST_TIMEOUT_S = 6 * 3600.0
PLAIN_TIMEOUT_S = 10.0


@dataclass
class Outcome:
    """What happened to one request. Units: seconds."""

    prompt_tokens: int
    started: float = 0.0
    success: bool = False
    ttft: float = 0.0
    latency: float = 0.0
    itls: list[float] = field(default_factory=list[float])
    arrivals: list[float] = field(default_factory=list[float])
    output_tokens: int = 0
    text: str = ""
    error: str = ""


@dataclass(frozen=True)
class Target:
    """The server under load."""

    host: str
    port: int
    prefix: str = ""
    headers: tuple[tuple[str, str], ...] = ()


@contextlib.asynccontextmanager
async def _exchange(
    target: Target, method: str, path: str, body: bytes, extra: dict[str, str]
) -> AsyncGenerator[asyncio.StreamReader]:
    """Send one request on a connection of its own and give the reader of the answer."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    lines = [f"{method} {target.prefix}{path} HTTP/1.1", f"host: {target.host}:{target.port}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in ({**dict(target.headers), **extra}).items()]
    lines += ["content-type: application/json", f"content-length: {len(body)}", "", ""]
    try:
        writer.write("\r\n".join(lines).encode() + body)
        await writer.drain()
        yield reader
    finally:
        writer.close()


async def _status_and_headers(reader: asyncio.StreamReader) -> tuple[int, str, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    _, status, reason = (head[0] + "  ").split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
    return int(status), reason.strip(), headers


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    """Yield the parts of a body as they arrive."""
    if headers.get("transfer-encoding", "") != "chunked":
        while data := await reader.read(1 << 16):
            yield data
        return
    while size := int((await reader.readline()).split(b";")[0], 16):
        yield (await reader.readexactly(size + 2))[:-2]


async def get(target: Target, path: str) -> tuple[int, bytes]:
    """Fetch one path whole; raises OSError when the server is not there."""
    async with asyncio.timeout(PLAIN_TIMEOUT_S), _exchange(target, "GET", path, b"", {}) as reader:
        status, _, headers = await _status_and_headers(reader)
        return status, b"".join([part async for part in _body(reader, headers)])


def _error_text(target: Target, error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        where = f"('{target.host}', {target.port})"
        return (
            "Traceback (most recent call last):\n"
            f"aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host {target.host}:{target.port} "
            f"ssl:default [Connect call failed {where}]\n"
        )
    return f"Traceback (most recent call last):\n{type(error).__name__}: {error}\n"


async def request(target: Target, path: str, payload: dict[str, Any], request_id: str, tokens: int) -> Outcome:
    """Send one completion request and measure its stream. A failure is in the outcome, never raised."""
    outcome = Outcome(tokens)
    body = json.dumps(payload).encode()
    outcome.started = time.perf_counter()
    try:
        ids = {"x-request-id": request_id}
        async with asyncio.timeout(REQUEST_TIMEOUT_S), _exchange(target, "POST", path, body, ids) as reader:
            status, reason, headers = await _status_and_headers(reader)
            if status != 200:
                outcome.error = reason
            elif payload.get("stream"):
                await _read_stream(reader, headers, outcome)
            else:
                await _read_whole(reader, headers, outcome)
    except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError) as error:
        outcome.success = False
        outcome.error = _error_text(target, error)
    return outcome


async def _read_stream(reader: asyncio.StreamReader, headers: dict[str, str], outcome: Outcome) -> None:
    last = outcome.started
    pending = b""
    pieces: list[str] = []
    async for part in _body(reader, headers):
        *events, pending = (pending + part).split(b"\n\n")
        for event in events:
            data = event.removeprefix(b"data: ")
            if data == b"[DONE]":
                outcome.success = bool(outcome.arrivals)
                continue
            now = time.perf_counter()
            if _absorb(json.loads(data), outcome, pieces):
                if outcome.arrivals:
                    outcome.itls.append(now - last)
                else:
                    outcome.ttft = now - outcome.started
                outcome.arrivals.append(now)
                outcome.latency = now - outcome.started
                last = now
    outcome.text = "".join(pieces)
    outcome.output_tokens = outcome.output_tokens or len(outcome.arrivals)
    if not outcome.success:
        outcome.error = "Never received a valid chunk to calculate TTFT.This response will be marked as failed!"


def _absorb(event: dict[str, Any], outcome: Outcome, pieces: list[str]) -> bool:
    """Take text and token counts from one event; says whether it carried text."""
    usage = cast("dict[str, int] | None", event.get("usage"))
    if usage:
        outcome.output_tokens = usage["completion_tokens"]
        outcome.prompt_tokens = usage.get("prompt_tokens", outcome.prompt_tokens)
    choices = cast("list[dict[str, Any]]", event.get("choices") or [])
    if not choices:
        return False
    text = choices[0].get("text") or (choices[0].get("delta") or {}).get("content")
    if text:
        pieces.append(text)
    return bool(text)


async def _read_whole(reader: asyncio.StreamReader, headers: dict[str, str], outcome: Outcome) -> None:
    data: dict[str, Any] = json.loads(b"".join([part async for part in _body(reader, headers)]))
    outcome.ttft = outcome.latency = time.perf_counter() - outcome.started
    outcome.arrivals = [time.perf_counter()]
    outcome.output_tokens = data["usage"]["completion_tokens"]
    outcome.prompt_tokens = data["usage"]["prompt_tokens"]
    choice: dict[str, Any] = data["choices"][0]
    outcome.text = choice.get("text") or choice.get("message", {}).get("content", "")
    outcome.success = True

"""A forwarded port behaves like the port itself."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import socket
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from forward_world import BIG, Service

from tests.connect.places import Place, Server
from tests.live import sshd
from vaws_mcp.core.context import Context, Resources
from vaws_mcp.core.failures import Failure
from vaws_mcp.dispatch.invoke import invoke
from vaws_mcp.endpoint.models import EndpointConfig
from vaws_mcp.endpoint.registry import save_endpoint
from vaws_mcp.workspace.forward import forwards
from vaws_mcp.workspace.forward.operations import remote_forward

Answer = dict[str, Any]


class Caller:
    """Calls ``remote_forward`` as the MCP server does."""

    def __init__(self, state_dir: Path, resources: Resources) -> None:
        self.state_dir = state_dir
        self.resources = resources

    async def __call__(self, **arguments: Any) -> Answer:
        return await invoke(remote_forward, arguments, Context(self.state_dir, self.resources, wait_s=45))

    async def open(self, endpoint: str, service: Service | int, **arguments: Any) -> Answer:
        port = service if isinstance(service, int) else service.server_address[1]
        answer = await self(endpoint=endpoint, remote_port=port, **arguments)
        assert answer["outcome"] == "success", answer
        return answer["forwards"][0]

    async def row(self) -> Answer:
        return (await self(action="list"))["forwards"][0]


def list_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def read_on(stream: anyio.abc.SocketStream) -> None:
    """Read until the connection ends, as it must."""
    with anyio.fail_after(10):
        while True:
            await stream.receive()


@asynccontextmanager
async def caller(state_dir: Path) -> AsyncGenerator[Caller]:
    async with Resources() as resources:
        yield Caller(state_dir, resources)


@pytest.mark.asyncio
async def test_a_browser_keeps_its_connection(place: Place, web: Service) -> None:
    async with caller(place.state_dir) as call, httpx.AsyncClient(trust_env=False) as browser:
        forward = await call.open(place.kind, web)
        assert forward["local"].startswith("127.0.0.1:")
        for number in range(20):
            assert (await browser.get(f"{forward['url']}{number}")).text == f"/{number}"
        row = await call.row()
    assert web.connections == row["connections"] == 1
    assert row["bytes_up"] > 500
    assert row["bytes_down"] > 500


@pytest.mark.asyncio
async def test_large_bodies_arrive_whole_in_both_directions(place: Place, web: Service) -> None:
    async with caller(place.state_dir) as call, httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        forward = await call.open(place.kind, web)
        assert (await browser.get(f"{forward['url']}big")).content == BIG
        assert (await browser.post(forward["url"], content=BIG)).text == hashlib.sha256(BIG).hexdigest()
        row = await call.row()
    assert min(row["bytes_up"], row["bytes_down"]) > len(BIG)


@pytest.mark.asyncio
async def test_fifty_connections_at_once(place: Place, web: Service) -> None:
    async def fetch(url: str, number: int) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as browser:
            assert (await browser.get(f"{url}{number}")).text == f"/{number}"

    async with caller(place.state_dir) as call:
        forward = await call.open(place.kind, web)
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(fetch, forward["url"], number)
        assert (await call.row())["connections"] == 50


@pytest.mark.asyncio
async def test_a_half_closed_connection_still_answers(place: Place) -> None:
    async def answer_after_the_end(client: anyio.abc.SocketStream) -> None:
        async with client:
            got = b"".join([chunk async for chunk in client])
            await client.send(got.upper())

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not a database
    async with listener, caller(place.state_dir) as call, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer_after_the_end)
        forward = await call.open(place.kind, port)
        async with await anyio.connect_tcp(*forward["local"].split(":")) as stream:
            await stream.send(b"hello")
            await stream.send_eof()
            with anyio.fail_after(10):
                assert b"".join([chunk async for chunk in stream]) == b"HELLO"
        group.cancel_scope.cancel()


@pytest.mark.asyncio
async def test_many_short_connections_that_the_service_closes(place: Place, web: Service) -> None:
    async with caller(place.state_dir) as call:
        forward = await call.open(place.kind, web)
        for number in range(20):
            async with await anyio.connect_tcp(*forward["local"].split(":")) as stream:
                await stream.send(f"GET /{number} HTTP/1.0\r\n\r\n".encode())
                answer = b""
                with anyio.fail_after(10), contextlib.suppress(anyio.EndOfStream):
                    while True:
                        answer += await stream.receive()
                assert answer.endswith(f"\r\n\r\n/{number}".encode())
        row = await call.row()
    assert (row["connections"], row["broken"], row["refused"], row["last_error"]) == (20, 0, 0, None)


def flood(connection: socket.socket) -> None:
    """Send until the other side takes no more, as it must soon; nothing is read."""
    connection.settimeout(1)
    with contextlib.suppress(TimeoutError):
        for _ in range(100):
            connection.send(bytes(1 << 20))
        pytest.fail("everything was taken")


@pytest.mark.asyncio
async def test_a_side_that_does_not_read_stops_the_other(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with caller(place.state_dir) as call:
            forward = await call.open(place.kind, listener.getsockname()[1])
            host, port = forward["local"].split(":")
            with socket.create_connection((host, int(port))) as client:
                service, _ = await anyio.to_thread.run_sync(listener.accept)
                with service:
                    async with anyio.create_task_group() as group:
                        group.start_soon(anyio.to_thread.run_sync, flood, client)
                        group.start_soon(anyio.to_thread.run_sync, flood, service)
                    row = await call.row()
                    assert 0 < row["bytes_up"] < 32 << 20
                    assert 0 < row["bytes_down"] < 32 << 20


@pytest.mark.asyncio
async def test_a_client_is_not_read_before_the_service_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = anyio.Event(), anyio.Event()

    async def slow_dial(*_arguments: Any) -> anyio.abc.ByteStream:
        asked.set()
        await go_on.wait()
        raise Failure("service_unreachable", "nobody is there")

    monkeypatch.setattr(forwards, "dial", slow_dial)
    async with caller(tmp_path) as call:
        forward = await call.open("local", 1)
        host, port = forward["local"].split(":")
        with socket.create_connection((host, int(port))) as client:
            await asked.wait()
            before = peak_rss_kib()
            await anyio.to_thread.run_sync(flood, client)
            assert peak_rss_kib() - before < 32 << 10
        go_on.set()


def peak_rss_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.asyncio
async def test_a_refused_connection_is_closed_and_counted(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with caller(place.state_dir) as call:
        forward = await call.open(place.kind, port)
        async with httpx.AsyncClient(trust_env=False) as browser:
            with pytest.raises(httpx.TransportError):
                await browser.get(forward["url"])
        row = await call.row()
    assert (row["refused"], row["open_connections"]) == (1, 0)
    assert f"127.0.0.1:{port}" in row["last_error"]


@pytest.mark.asyncio
async def test_closing_cuts_a_connection_in_use(place: Place, web: Service) -> None:
    async with caller(place.state_dir) as call:
        forward = await call.open(place.kind, web)
        async with await anyio.connect_tcp(*forward["local"].split(":")) as stream:
            await stream.send(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" in await stream.receive()
            closed = await call(action="close", forward_id=forward["forward_id"])
            assert closed["status"] == "closed"
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await read_on(stream)
        assert (await call(action="list"))["forwards"] == []
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp(*forward["local"].split(":"))
        again = await call(action="close", forward_id=forward["forward_id"])
        assert (again["status"], again["error"]["code"]) == ("refused", "forward_unknown")


@pytest.mark.asyncio
async def test_a_unix_socket_is_for_its_owner_only(place: Place, web: Service, tmp_path: Path) -> None:
    path = tmp_path / "a b.sock"
    async with caller(place.state_dir) as call:
        forward = await call.open(place.kind, web, local_socket=str(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert forward["url"] is None
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport, trust_env=False) as browser:
            assert (await browser.get("http://x/hi")).text == "/hi"
        busy = await call(endpoint=place.kind, remote_port=80, local_socket=str(path))
        assert busy["error"]["code"] == "socket_in_use"
        await call(action="close", forward_id=forward["forward_id"])
    assert not list_of(tmp_path)


@pytest.mark.asyncio
async def test_a_port_in_use_is_refused_by_name(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with caller(tmp_path) as call:
            answer = await call(endpoint="local", remote_port=80, local_port=taken.getsockname()[1])
    assert answer["outcome"] == "blocked"
    assert answer["error"]["code"] == "port_in_use"
    assert f"process {os.getpid()} " in answer["summary"]


@pytest.mark.asyncio
async def test_a_file_in_the_way_of_a_socket_stays(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    async with caller(tmp_path) as call:
        answer = await call(endpoint="local", remote_port=80, local_socket=str(tmp_path / "file"))
    assert answer["error"]["code"] == "socket_path_invalid"
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "remote_port is missing"),
        ({"action": "close"}, "forward_id is missing"),
        ({"remote_port": 1, "local_port": 5, "local_socket": "/x"}, "not both"),
        ({"remote_port": 70000}, "remote_port"),
        ({"remote_port": 1, "remote_host": "$(touch x)"}, "remote_host"),
    ],
)
@pytest.mark.asyncio
async def test_wrong_arguments_are_refused(tmp_path: Path, arguments: dict[str, Any], word: str) -> None:
    async with caller(tmp_path) as call:
        answer = await call(**arguments)
    assert answer["status"] == "refused"
    assert word in answer["error"]["message"]


@pytest.mark.asyncio
async def test_after_a_lost_connection_the_next_client_is_served(server: Server, web: Service, tmp_path: Path) -> None:
    server.register(tmp_path)
    async with caller(tmp_path) as call:
        forward = await call.open("box", web)
        async with await anyio.connect_tcp(*forward["local"].split(":")) as stream:
            await stream.send(b"GET /hold HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200" in await stream.receive()
            server.kill_connections()
            with pytest.raises(anyio.BrokenResourceError):
                await read_on(stream)
        async with httpx.AsyncClient(trust_env=False) as browser:
            assert (await browser.get(f"{forward['url']}again")).text == "/again"
        row = await call.row()
    assert (row["broken"], row["connections"]) == (1, 2)


@pytest.mark.asyncio
async def test_a_server_that_forbids_forwarding_is_named(tmp_path: Path, home: Path, web: Service) -> None:
    with sshd.running_sshd(tmp_path / "sshd", ["AllowTcpForwarding no"]) as facts:
        server = Server(facts, tmp_path, home)
        server.register(tmp_path)
        async with caller(tmp_path) as call:
            forward = await call.open("box", web)
            async with httpx.AsyncClient(trust_env=False) as browser:
                with pytest.raises(httpx.TransportError):
                    await browser.get(forward["url"])
            assert "forbids forwarding" in (await call.row())["last_error"]


DOCKER = """#!/bin/sh
case "$1" in
inspect) echo "0123 true" ;;
exec) shift 3; echo "a banner"; exec "$@" ;;
esac
"""


@pytest.mark.parametrize("kind", ["local", "box"])
@pytest.mark.asyncio
async def test_a_container_is_reached_through_exec(
    kind: str, server: Server, web: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "docker").write_text(DOCKER)
    (tools / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    if kind == "box":
        (server.remote_home / ".bashrc").write_text(f"PATH={tools}:$PATH\n")
        server.register(tmp_path, container="c")
    else:
        save_endpoint(tmp_path, EndpointConfig(name="inside", container="c"))
    name = "box" if kind == "box" else "inside"
    async with caller(tmp_path) as call, httpx.AsyncClient(trust_env=False, timeout=60) as browser:
        forward = await call.open(name, web)
        assert (await browser.get(f"{forward['url']}big")).content == BIG
        assert (await browser.post(forward["url"], content=BIG)).text == hashlib.sha256(BIG).hexdigest()
        nothing = await call.open(name, 1)
        with pytest.raises(httpx.TransportError):
            await browser.get(nothing["url"])
        rows = (await call(action="list"))["forwards"]
    assert [row["refused"] for row in rows] == [0, 1]
    assert "refused" in rows[1]["last_error"]


@pytest.mark.asyncio
async def test_the_command_line_holds_the_call_until_it_is_interrupted(tmp_path: Path, web: Service) -> None:
    events: list[str] = []
    listening = anyio.Event()

    async def sink(event: Any) -> None:
        events.append(event.facts.get("url"))
        listening.set()

    async with Resources() as resources, anyio.create_task_group() as group:
        ctx = Context(tmp_path, resources, sink=sink)
        group.start_soon(invoke, remote_forward, {"endpoint": "local", "remote_port": web.server_address[1]}, ctx)
        with anyio.fail_after(20):
            await listening.wait()
        async with httpx.AsyncClient(trust_env=False) as browser:
            assert (await browser.get(f"{events[0]}hi")).text == "/hi"
        group.cancel_scope.cancel()
    async with httpx.AsyncClient(trust_env=False) as browser:
        with pytest.raises(httpx.ConnectError):
            await browser.get(events[0])

"""The line to the client: whatever it is made of and whatever comes over it, every request gets an answer."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import tty
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_session import WAIT_S, Session, serving

PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}
MIB = 1 << 20


def line(message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"


@contextmanager
def server(tmp_path: Path, stdin: Any, stdout: Any) -> Generator[subprocess.Popen[bytes]]:
    """Run a server on these streams; it must end by itself, without an error, within the bound."""
    environment = {"VAWS_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    log = tmp_path / "log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "vaws_mcp", "mcp"], stdin=stdin, stdout=stdout, stderr=errors, env=environment
        )
    watchdog = threading.Timer(WAIT_S, process.kill)
    watchdog.start()
    try:
        yield process
        assert process.wait(WAIT_S) == 0, log.read_text(errors="replace")[-2000:]
        assert "Traceback" not in log.read_text(errors="replace")
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
        process.wait(WAIT_S)


@pytest.fixture
def session(tmp_path: Path) -> Generator[Session]:
    with serving(tmp_path / ".vaws-local", tmp_path / "log") as opened:
        yield opened


def send(session: Session, raw: bytes) -> None:
    assert session.process.stdin
    session.process.stdin.write(raw)
    session.process.stdin.flush()


def answer(session: Session) -> dict[str, Any]:
    assert session.process.stdout
    return json.loads(session.process.stdout.readline())


def test_files_as_input_and_output(tmp_path: Path) -> None:
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_bytes(line(HELLO) + json.dumps(PING).encode())  # the last line has no end
    with asked.open("rb") as stdin, answered.open("wb") as stdout, server(tmp_path, stdin, stdout):
        pass
    answers = {message["id"]: message for message in map(json.loads, answered.read_text().splitlines())}
    assert answers.keys() == {1, "p"}
    assert answers[1]["result"]["serverInfo"]["name"] == "vaws-mcp"


def test_an_empty_input_is_a_client_that_has_left(tmp_path: Path) -> None:
    answered = tmp_path / "answered"
    with answered.open("wb") as stdout, server(tmp_path, subprocess.DEVNULL, stdout):
        pass
    assert answered.read_bytes() == b""


@pytest.mark.parametrize(("closed", "answered"), [(0, False), (1, False), (2, True)])
def test_a_standard_stream_that_is_closed_is_like_the_null_device(tmp_path: Path, closed: int, answered: bool) -> None:
    script = f'exec "$@" {closed}>&-'
    argv = ["/bin/sh", "-c", script, "sh", sys.executable, "-m", "vaws_mcp", "mcp"]
    environment = {"VAWS_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, input=line(HELLO), capture_output=True, env=environment, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"vaws-mcp" in done.stdout) == answered


def test_one_socket_for_both_directions(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, ours.makefile("rwb") as stream, server(tmp_path, theirs, theirs):
        theirs.close()
        for message in (HELLO, PING):
            stream.write(line(message))
            stream.flush()
            assert json.loads(stream.readline())["id"] == message["id"]
        ours.shutdown(socket.SHUT_WR)
        assert stream.readline() == b""


def test_a_terminal_for_both_directions(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with server(tmp_path, theirs, theirs):
        assert os.get_blocking(theirs)
        with os.fdopen(ours, "r+b", buffering=0) as stream:
            for message in (HELLO, PING):
                stream.write(line(message))
                said = b""
                while not said.endswith(b"\n"):
                    said += stream.read(4096)
                assert json.loads(said)["id"] == message["id"]
            assert os.get_blocking(theirs)  # other programs have the same terminal
            os.close(theirs)


def test_termination_ends_a_server_that_waits(tmp_path: Path) -> None:
    with server(tmp_path, subprocess.PIPE, subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        with closing(process.stdin), closing(process.stdout):
            process.stdin.write(line(HELLO))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == 0


def test_a_client_that_stops_reading_does_not_hurt(tmp_path: Path) -> None:
    with server(tmp_path, subprocess.PIPE, subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        with closing(process.stdin):
            process.stdin.write(line(HELLO))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == 1
            process.stdout.close()
            for _ in range(20):
                process.stdin.write(line(PING))
                process.stdin.flush()


def test_a_slow_client_loses_nothing(session: Session) -> None:
    many = 60
    asked = b"".join(line({"jsonrpc": "2.0", "id": 100 + n, "method": "tools/list"}) for n in range(many))
    send(session, asked)  # the answers are far more than the pipe takes, and nobody reads them yet
    send(session, line(PING))
    answers = [answer(session) for _ in range(many + 1)]
    assert {message["id"] for message in answers} == {*range(100, 100 + many), "p"}
    assert all("tools" in message["result"] for message in answers if message["id"] != "p")


def test_a_long_line_is_a_message_like_any_other(session: Session) -> None:
    found = session.call("run_list", {"x": "a" * (8 * MIB)})
    assert found["structuredContent"]["error"]["code"] == "argument_unknown"


@pytest.mark.parametrize("id_first", [True, False])
def test_a_line_beyond_all_bounds_is_refused_under_its_id(session: Session, id_first: bool) -> None:
    ident, rest = '"id":77', '"method":"tools/call","params":{"name":"run_list","arguments":{"x":"'
    before, after = (ident + ",", "}}") if id_first else ("", "}}," + ident)
    send(session, ('{"jsonrpc":"2.0",' + before + rest).encode())
    for _ in range(65):
        send(session, b"a" * MIB)
    send(session, ('"' + after + "}\n").encode())
    refused = answer(session)
    assert (refused["id"], refused["error"]["code"]) == (77, -32600)
    assert "64 MB" in refused["error"]["message"]
    send(session, line(PING))
    assert answer(session) == {"jsonrpc": "2.0", "id": "p", "result": {}}


CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"remote_bash","arguments":{"command":"%s"}}}'


@pytest.mark.parametrize(
    ("raw", "request_id", "code"),
    [
        pytest.param(CALL % rb"echo \ud800", 7, -32600, id="lone surrogate"),
        pytest.param(CALL % rb"echo \udcff\udcfe", 7, -32600, id="escaped bytes"),
        pytest.param(CALL % b"echo \xff\xfe", 7, -32600, id="no UTF-8"),
        pytest.param(CALL[:-1] % b"true", 7, -32700, id="a bracket is missing"),
        pytest.param(b'{"method":"ping",,"id":"x-1"}', "x-1", -32700, id="id at the end"),
        pytest.param(b'{"jsonrpc":"2.0","id":8,"method":5}', 8, -32600, id="method is a number"),
        pytest.param(b'{"jsonrpc":"1.0","id":9,"method":"ping"}', 9, -32600, id="another version"),
        pytest.param(b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', None, -32600, id="id is an object"),
        pytest.param(b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600, id="id is null"),
        pytest.param(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', None, -32600, id="id is no text"),
        pytest.param(b'[{"jsonrpc":"2.0","id":9,"method":"ping"}]', None, -32600, id="batch"),
        pytest.param(b"[" * 100_000, None, -32700, id="too deep"),
        pytest.param(b"hello", None, -32700, id="no JSON at all"),
        pytest.param(b"\x00\x1b[2J\xff", None, -32700, id="noise"),
    ],
)
def test_what_is_no_message_is_answered_and_the_next_one_works(
    session: Session, raw: bytes, request_id: object, code: int
) -> None:
    send(session, raw + b"\n")
    refused = answer(session)
    assert (refused["jsonrpc"], refused["id"], refused["error"]["code"]) == ("2.0", request_id, code)
    assert "cannot be read" in refused["error"]["message"]
    assert len(refused["error"]["message"]) < 500
    send(session, line(PING))
    assert answer(session) == {"jsonrpc": "2.0", "id": "p", "result": {}}


@pytest.mark.parametrize(
    "raw",
    [b"", b"  \r", b'{"jsonrpc":"2.0","method":"notifications/x","params":5}', b'{"jsonrpc":"2.0","id":4,"resul":{}}'],
)
def test_nobody_waits_for_an_answer_to_what_is_no_request(session: Session, raw: bytes) -> None:
    send(session, raw + b"\n")
    send(session, line(PING))
    assert answer(session)["id"] == "p"

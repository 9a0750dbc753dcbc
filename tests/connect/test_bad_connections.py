"""A connection that cannot be made says which layer failed, why, and what to do next; nothing is trusted silently."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from places import Answer, Server, fingerprint_of, remote_dev

from tests.live import sshd

Capture = pytest.CaptureFixture[str]


def check(answer: Answer, code: str, *words: str, layer: str = "transport") -> None:
    """The failure has this code and layer, its message holds these words, and it names a next step."""
    error = answer["error"]
    assert (error["code"], error["layer"]) == (code, layer), error
    for word in words:
        assert word in error["message"]
    assert error["hint"]
    assert error["retry_safe"] is True
    assert answer["summary"] in error["message"]


def test_a_closed_port(home: Path, state_dir: Path, capfd: Capture) -> None:
    port = sshd.free_port()
    code, answer = remote_dev(capfd, "probe", "--endpoint", f"root@127.0.0.1:{port}")
    assert code == 1
    check(answer, "port_closed", f"root@127.0.0.1:{port}", f"port {port}")


def test_a_name_that_cannot_be_resolved(home: Path, state_dir: Path, capfd: Capture) -> None:
    code, answer = remote_dev(capfd, "bash", "true", "--endpoint", "root@no-such-host.invalid")
    assert code == 1
    check(answer, "host_unresolved", "no-such-host.invalid")


def test_a_key_the_host_does_not_know(server: Server, state_dir: Path, capfd: Capture) -> None:
    server.know()
    stranger = sshd.make_key(server.home / "stranger")
    words = ["--endpoint", server.destination, "--identity-file", str(stranger)]
    code, answer = remote_dev(capfd, "probe", *words)
    assert code == 1
    check(answer, "auth_failed", server.destination, server.facts.user, str(stranger))
    assert "authorized_keys" in answer["error"]["hint"]


@pytest.mark.parametrize("content", [None, "this is no key\n"])
def test_a_key_file_that_cannot_be_used(server: Server, state_dir: Path, capfd: Capture, content: str | None) -> None:
    server.know()
    path = server.home / "id_lost"
    if content:
        path.write_text(content)
    code, answer = remote_dev(capfd, "probe", "--endpoint", server.destination, "--identity-file", str(path))
    assert code == 1
    check(answer, "identity_unusable", server.destination, str(path), layer="local")
    assert "identity_file" in answer["error"]["hint"]


def test_a_key_with_a_passphrase_is_left_to_the_agent(server: Server, state_dir: Path, capfd: Capture) -> None:
    server.know()
    path = server.home / "id_locked"
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret words", "-f", str(path)]
    subprocess.run(argv, check=True, capture_output=True, timeout=30)
    code, answer = remote_dev(capfd, "probe", "--endpoint", server.destination, "--identity-file", str(path))
    assert code == 1
    check(answer, "identity_unusable", str(path), layer="local")
    assert "ssh-agent" in answer["error"]["hint"]


def test_without_a_key_file_the_users_usual_keys_are_tried(server: Server, state_dir: Path, capfd: Capture) -> None:
    server.know()
    shutil.copy(server.facts.identity_file, server.home / ".ssh" / "id_ed25519")
    code, answer = remote_dev(capfd, "bash", "echo in", "--endpoint", server.destination)
    assert (code, answer["stdout"]) == (0, "in\n")


def test_a_host_that_says_nothing_is_given_up(
    home: Path, state_dir: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaws_mcp.endpoint.ssh.CONNECT_TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"root@127.0.0.1:{silent.getsockname()[1]}"
        code, answer = remote_dev(capfd, "probe", "--endpoint", where)
    assert code == 1
    check(answer, "connect_timeout", where, "no answer")


def test_a_port_that_speaks_something_else_is_named(home: Path, state_dir: Path, capfd: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_once() -> None:
            with listener.accept()[0] as connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        talker = threading.Thread(target=answer_once)
        talker.start()
        where = f"root@127.0.0.1:{listener.getsockname()[1]}"
        code, answer = remote_dev(capfd, "probe", "--endpoint", where)
        talker.join()
    assert code == 1
    check(answer, "connect_failed", where)


def test_an_unknown_host_key_is_shown_and_not_pinned(server: Server, state_dir: Path, capfd: Capture) -> None:
    code, answer = remote_dev(capfd, "probe", *server.flags)
    assert code == 3
    check(answer, "host_key_unknown", server.destination, server.fingerprint)
    assert "accept_new" in answer["error"]["hint"]
    assert not (state_dir / "known_hosts").exists()
    assert list((server.home / ".ssh").iterdir()) == []


def test_accepting_a_new_key_pins_it_once_with_a_warning(server: Server, state_dir: Path, capfd: Capture) -> None:
    code, answer = remote_dev(capfd, "bash", "echo in", *server.flags, "--accept-new")
    assert (code, answer["stdout"]) == (0, "in\n")
    assert len(answer["warnings"]) == 1
    assert server.fingerprint in answer["warnings"][0]
    assert server.destination in answer["warnings"][0]
    pinned = (state_dir / "known_hosts").read_text()
    assert pinned.count("\n") == 1
    for extra in ([], ["--accept-new"]):
        code, answer = remote_dev(capfd, "bash", "echo in", *server.flags, *extra)
        assert (code, answer["stdout"], answer["warnings"]) == (0, "in\n", [])
    assert (state_dir / "known_hosts").read_text() == pinned
    assert list((server.home / ".ssh").iterdir()) == []


@pytest.mark.parametrize("pinned_by", ["user", "us"])
@pytest.mark.parametrize("extra", [[], ["--accept-new"]])
def test_a_changed_host_key_is_refused_with_both_fingerprints(
    server: Server, state_dir: Path, capfd: Capture, pinned_by: str, extra: list[str]
) -> None:
    old = sshd.make_key(server.home / "old").with_suffix(".pub")
    path = (server.home / ".ssh" if pinned_by == "user" else state_dir) / "known_hosts"
    path.parent.mkdir(exist_ok=True)
    line = f"[{server.facts.host}]:{server.facts.port} {old.read_text()}"
    path.write_text(line)
    code, answer = remote_dev(capfd, "probe", *server.flags, *extra)
    assert code == 1
    check(answer, "host_key_changed", server.destination, server.fingerprint, fingerprint_of(old))
    assert path.read_text() == line


def test_a_revoked_host_key_is_refused_even_with_accept_new(server: Server, state_dir: Path, capfd: Capture) -> None:
    key = (server.facts.log.parent / "host_key.pub").read_text()
    (server.home / ".ssh" / "known_hosts").write_text(f"@revoked * {key}")
    code, answer = remote_dev(capfd, "probe", *server.flags, "--accept-new")
    assert code == 1
    check(answer, "host_key_revoked", server.destination, "@revoked")
    assert not (state_dir / "known_hosts").exists()


@pytest.mark.parametrize("text", ['[box]\nhost = "h', '[box]\nhots = "h"\n'])
def test_a_torn_endpoints_file_is_named_and_left_alone(home: Path, state_dir: Path, capfd: Capture, text: str) -> None:
    state_dir.mkdir()
    path = state_dir / "endpoints.toml"
    path.write_text(text)
    code, answer = remote_dev(capfd, "probe", "--endpoint", "box")
    assert code == 2
    check(answer, "endpoints_file_invalid", str(path), layer="local")
    assert path.read_text() == text


def test_no_endpoint_and_an_unknown_one_are_refused_before_anything(
    home: Path, state_dir: Path, capfd: Capture
) -> None:
    code, answer = remote_dev(capfd, "probe")
    assert code == 3
    check(answer, "endpoint_missing", layer="caller")
    code, answer = remote_dev(capfd, "probe", "--endpoint", "boxx")
    assert code == 2
    check(answer, "endpoint_unknown", "boxx", "known: local", layer="caller")


def test_a_broken_ssh_configuration_is_named(server: Server, state_dir: Path, capfd: Capture) -> None:
    server.know()
    (server.home / ".ssh" / "config").write_text("Host *\n  Port many\n")
    code, answer = remote_dev(capfd, "probe", *server.flags)
    assert code == 1
    check(answer, "ssh_config_invalid", "~/.ssh/config", "Port", layer="local")


@pytest.mark.parametrize("jump", ["host:port", "me@host:70000", "a b"])
def test_a_malformed_jump_host_is_refused(server: Server, state_dir: Path, capfd: Capture, jump: str) -> None:
    code, answer = remote_dev(capfd, "probe", *server.flags, f"--jump={jump}")
    assert code == 2
    check(answer, "endpoint_malformed", jump, layer="caller")


def test_a_container_that_cannot_be_entered_is_not_replaced_by_the_host(
    server: Server, state_dir: Path, capfd: Capture
) -> None:
    server.know()
    note = server.home / "ran"
    code, answer = remote_dev(capfd, "bash", f"touch {note}", *server.flags, "--container", "no-such-container")
    assert code == 1
    check(answer, "container_unusable", "no-such-container", server.destination, layer="remote_env")
    assert not note.exists()


def test_the_key_is_never_in_an_answer(server: Server, state_dir: Path, capfd: Capture) -> None:
    server.know()
    secret = server.facts.identity_file.read_text().splitlines()[2]
    remote_dev(capfd, "bash", "HF_TOKEN=abc123 true", *server.flags, "--env", "API_KEY=abc123")
    kept = "".join(path.read_text() for path in state_dir.rglob("*") if path.is_file())
    assert re.search(r"remote_bash", kept)
    assert secret not in kept
    assert "abc123" not in kept

"""Through other hosts, past what shells print, and on after a lost connection."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from places import Answer, Server, lives, open_box, open_server, remote_dev, until

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def front(tmp_path: Path, home: Path) -> Iterator[Server]:
    """The host that one must pass; it lets in whoever may log in to the server behind it."""
    with open_server(tmp_path / "front", home) as opened:
        yield opened


def let_in(front: Server, server: Server) -> None:
    keys = front.facts.log.parent / "authorized_keys"
    keys.write_text(keys.read_text() + server.facts.identity_file.with_suffix(".pub").read_text())


def logins(server: Server) -> int:
    return server.facts.log.read_text().count("Accepted publickey")


def test_a_jump_host_is_passed(front: Server, server: Server, state_dir: Path, capfd: Capture) -> None:
    let_in(front, server)
    front.know()
    server.know()
    code, answer = remote_dev(capfd, "bash", "echo $SSH_CONNECTION", *server.flags, "--jump", front.destination)
    assert (code, answer["outcome"]) == (0, "success")
    assert (logins(front), logins(server)) == (1, 1)
    code, answer = remote_dev(capfd, "bash", "true", *server.flags)
    assert (code, logins(front), logins(server)) == (0, 1, 2)


def test_a_jump_host_that_fails_is_the_one_that_is_named(
    front: Server, server: Server, state_dir: Path, capfd: Capture
) -> None:
    server.know()
    code, answer = remote_dev(capfd, "bash", "true", *server.flags, "--jump", front.destination)
    assert code == 3
    assert answer["error"]["code"] == "host_key_unknown"
    assert front.destination in answer["error"]["message"]
    assert front.fingerprint in answer["error"]["message"]
    assert logins(server) == 0


def test_new_keys_of_both_hosts_are_pinned_when_asked(
    front: Server, server: Server, state_dir: Path, capfd: Capture
) -> None:
    let_in(front, server)
    code, answer = remote_dev(capfd, "bash", "true", *server.flags, "--jump", front.destination, "--accept-new")
    assert code == 0
    assert [front.fingerprint in answer["warnings"][0], server.fingerprint in answer["warnings"][1]] == [True, True]


def test_a_host_behind_a_jump_host_that_is_closed_is_named(
    front: Server, server: Server, state_dir: Path, capfd: Capture
) -> None:
    front.know()
    where = ["--endpoint", "root@127.0.0.1:1", "--identity-file", str(front.facts.identity_file)]
    code, answer = remote_dev(capfd, "bash", "true", *where, "--jump", front.destination)
    assert code == 1
    assert answer["error"]["layer"] == "transport"
    assert "root@127.0.0.1:1" in answer["error"]["message"]


def test_the_users_ssh_configuration_is_honoured(
    front: Server, server: Server, state_dir: Path, capfd: Capture
) -> None:
    front.know()
    (server.home / ".ssh" / "hosts").write_text(server.facts.known_hosts.read_text())
    lines: list[str] = []
    for name, place in (("front", front), ("behind", server)):
        lines += [f"Host {name}", f"  HostName {place.facts.host}", f"  Port {place.facts.port}"]
        lines += [f"  User {place.facts.user}", f"  IdentityFile {place.facts.identity_file}"]
    lines += ["  ProxyJump front", "  UserKnownHostsFile ~/.ssh/known_hosts ~/.ssh/hosts", "  ControlMaster auto"]
    (server.home / ".ssh" / "config").write_text("\n".join(lines) + "\n")
    code, answer = remote_dev(capfd, "bash", "echo in", "--endpoint", "behind")
    assert (code, answer.get("stdout")) == (0, "in\n"), answer
    assert (logins(front), logins(server)) == (1, 1)


@pytest.mark.parametrize(
    "profile",
    [
        "echo Welcome; echo; printf '\\xff\\x1b[31m no newline'",
        "echo to stderr >&2",
        "yes Authorised use only | head -500",
    ],
)
def test_what_a_shell_prints_before_the_worker_is_skipped(
    server: Server, state_dir: Path, capfd: Capture, profile: str
) -> None:
    server.know()
    (server.remote_home / ".bashrc").write_text(f"{profile}\ntouch ~/sourced\n")
    code, answer = remote_dev(capfd, "bash", "echo in; echo err >&2", *server.flags)
    assert (code, answer["stdout"], answer["stderr"]) == (0, "in\n", "err\n")
    if shutil.which("bash") == "/usr/bin/bash":
        assert (server.remote_home / "sourced").exists()


def test_a_shell_that_refuses_is_quoted(server: Server, state_dir: Path, capfd: Capture) -> None:
    server.know()
    (server.remote_home / ".bashrc").write_text("printf '\\033[1mThis account is closed.\\033[0m\\n'; exit 1\n")
    code, answer = remote_dev(capfd, "bash", "echo in", *server.flags)
    assert code == 1
    assert (answer["error"]["code"], answer["error"]["layer"]) == ("worker_failed", "remote_env")
    assert "This account is closed." in answer["error"]["message"]
    assert "\x1b" not in answer["error"]["message"]


@pytest.mark.asyncio
async def test_a_connection_that_is_lost_leaves_the_outcome_unknown_and_the_next_call_connects_anew(
    server: Server, state_dir: Path
) -> None:
    server.register(state_dir)
    note = server.remote_home / "pids"
    answers: list[Answer] = []
    async with open_box(state_dir, "box") as box:

        async def long_command() -> None:
            script = f"setsid sleep 300 & echo $$ $! > {note}.new; mv {note}.new {note}; wait"
            answers.append(await box.bash(script))

        async with anyio.create_task_group() as group:
            group.start_soon(long_command)
            await until(note.exists, "the command has started")
            await anyio.to_thread.run_sync(server.kill_connections)
        error = answers[0]["error"]
        assert (error["code"], error["layer"], error["retry_safe"]) == ("outcome_unknown", "transport", False)
        assert "box" in error["message"]
        assert "connects anew" in error["hint"]
        again = await box.bash("echo back")
        assert (again["outcome"], again["stdout"]) == ("success", "back\n")
        pids = [int(word) for word in note.read_text().split()]
        await until(lambda: not any(map(lives, pids)), "the lost worker has ended what it started")
    assert logins(server) == 2


@pytest.mark.asyncio
async def test_a_host_that_hangs_is_noticed_and_left(
    server: Server, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaws_mcp.endpoint.ssh.KEEPALIVE_S", 0.3)
    server.register(state_dir)
    async with open_box(state_dir, "box") as box:
        assert (await box.bash("true"))["exit_code"] == 0
        with anyio.fail_after(30), server.freeze_connections():
            error = (await box.bash("true"))["error"]
            assert (error["code"], error["layer"], error["retry_safe"]) == ("outcome_unknown", "transport", False)
            assert (await box.bash("echo back"))["stdout"] == "back\n"


@pytest.mark.asyncio
async def test_reading_is_safe_to_repeat_after_a_lost_connection(server: Server, state_dir: Path) -> None:
    server.register(state_dir)
    async with open_box(state_dir, "box") as box:
        assert (await box.bash("true"))["exit_code"] == 0
        await anyio.to_thread.run_sync(server.kill_connections)
        answer = await box.call("remote_read", file_path="/etc/hostname")
        if answer["outcome"] != "success":  # the loss was noticed only by this call
            assert (answer["error"]["code"], answer["error"]["retry_safe"]) == ("outcome_unknown", True)
        assert (await box.call("remote_read", file_path="/etc/hostname"))["outcome"] == "success"

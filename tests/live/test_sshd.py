"""The real OpenSSH server of the live tests serves clients and leaves nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import asyncssh
import processes
import pytest
import sshd

pytestmark = [pytest.mark.live, pytest.mark.timeout(60)]


async def connect(server: sshd.Sshd) -> asyncssh.SSHClientConnection:
    return await asyncssh.connect(
        server.host,
        server.port,
        username=server.user,
        client_keys=[str(server.identity_file)],
        known_hosts=str(server.known_hosts),
        config=None,
        connect_timeout=10,
    )


def test_openssh_client_runs_a_command(ssh_server: sshd.Sshd) -> None:
    done = subprocess.run([*ssh_server.client_argv(), "true"], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr


def test_openssh_client_refuses_another_host_key(ssh_server: sshd.Sshd, tmp_path: Path) -> None:
    stranger = sshd.make_key(tmp_path / "stranger").with_suffix(".pub").read_text(encoding="utf-8")
    ssh_server.known_hosts.write_text(f"[{ssh_server.host}]:{ssh_server.port} {stranger}", encoding="utf-8")
    done = subprocess.run([*ssh_server.client_argv(), "true"], capture_output=True, timeout=30, check=False)
    assert done.returncode == 255
    assert b"Host key verification failed" in done.stderr


@pytest.mark.asyncio
async def test_asyncssh_runs_a_command(ssh_server: sshd.Sshd) -> None:
    async with await connect(ssh_server) as connection:
        done = await connection.run("true", encoding=None, timeout=10)
        assert done.returncode == 0


@pytest.mark.asyncio
async def test_extra_configuration_wins_over_the_default(tmp_path: Path) -> None:
    if sshd.sshd_path() is None:
        pytest.skip(sshd.SSHD_MISSING)
    with sshd.running_sshd(tmp_path / "sshd", ["AllowTcpForwarding no"]) as server:
        async with await connect(server) as connection:
            with pytest.raises(asyncssh.ChannelOpenError):
                # asyncssh leaves the types of this method's result open.
                await connection.open_connection(server.host, server.port)  # pyright: ignore[reportUnknownMemberType]


@pytest.mark.asyncio
async def test_end_closes_the_port_and_open_connections(tmp_path: Path) -> None:
    if sshd.sshd_path() is None:
        pytest.skip(sshd.SSHD_MISSING)
    with sshd.running_sshd(tmp_path / "sshd") as server:
        connection = await connect(server)
        family = [*processes.session_members(server.pid), *processes.children(server.pid)]
    try:
        assert len(family) >= 2
        assert not [process for process in family if processes.is_alive(process)]
        assert not sshd.greets(server.port)
    finally:
        connection.abort()
        await connection.wait_closed()


def test_a_bad_configuration_is_reported_with_the_log(tmp_path: Path) -> None:
    if sshd.sshd_path() is None:
        pytest.skip(sshd.SSHD_MISSING)
    with pytest.raises(sshd.SshdError, match="NoSuchOption"), sshd.running_sshd(tmp_path, ["NoSuchOption yes"]):
        pass

"""The SSH front: bytes, exit status, signals, forwarding and who is let in."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from sim_box import Box, wait_until


@asynccontextmanager
async def connect(box: Box, **changes: Any) -> AsyncGenerator[asyncssh.SSHClientConnection]:
    options: dict[str, Any] = {
        "port": box.facts["port"],
        "username": box.facts["user"],
        "client_keys": [box.facts["identity_file"]],
        "known_hosts": box.facts["known_hosts"],
        "agent_path": None,
        "config": [],
    }
    async with asyncssh.connect("127.0.0.1", **(options | changes)) as connection:
        yield connection


@pytest.mark.asyncio
async def test_streams_exit_status_and_environment_arrive(box: Box):
    async with connect(box) as connection:
        answer = await connection.run("printf 'a\\0\\377'; printf err >&2; exit 7", encoding=None)
        assert (answer.stdout, answer.stderr, answer.exit_status) == (b"a\0\xff", b"err", 7)
        where = await connection.run("echo $HOME $VAWS_SIM; command -v npu-smi vllm python3")
        home, *programs = str(where.stdout).split()[0], *str(where.stdout).split()[2:]
    assert home == box.facts["workdir"]
    assert programs == [f"{box.root}/bin/{name}" for name in ("npu-smi", "vllm", "python3")]


@pytest.mark.asyncio
async def test_death_by_signal_is_reported_and_signals_are_delivered(box: Box):
    async with connect(box) as connection:
        killed = await connection.run("kill -9 $$")
        assert killed.exit_signal is not None
        assert killed.exit_signal[0] == "KILL"
        process: Any = await connection.create_process(
            "trap 'echo caught; exit 3' TERM; echo up; sleep 20 >/dev/null 2>&1 & wait"
        )
        assert await process.stdout.readline() == "up\n"
        process.send_signal("TERM")
        answer = await asyncio.wait_for(process.wait(), 5)
        assert (answer.exit_status, answer.stdout) == (3, "caught\n")


@pytest.mark.asyncio
async def test_megabytes_pass_both_ways_unchanged_and_end_of_input_is_half_a_close(box: Box):
    data = os.urandom(1 << 20) * 16
    async with connect(box) as connection:
        answer = await asyncio.wait_for(connection.run("cat", input=data, encoding=None), 20)
        assert answer.stdout == data


@pytest.mark.asyncio
async def test_a_slow_reader_and_a_slow_command_do_not_fill_the_servers_memory(box: Box):
    def resident_mb() -> float:
        text = Path(f"/proc/{box.facts['pid']}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) / 1024

    async with connect(box) as connection:
        before = resident_mb()
        reader: Any = await connection.create_process("head -c 300000000 /dev/zero", encoding=None)
        writer: Any = await connection.create_process("sleep 30", encoding=None)

        async def fill() -> None:
            for _ in range(300):
                writer.stdin.write(bytes(1_000_000))
                await writer.stdin.drain()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fill(), 1.0)
        assert resident_mb() - before < 64
        reader.close()
        writer.close()


@pytest.mark.asyncio
async def test_a_hundred_sessions_at_once_all_succeed(box: Box):
    async with connect(box) as connection:
        answers = await asyncio.wait_for(asyncio.gather(*(connection.run("sleep 0.1") for _ in range(100))), 10)
    assert {answer.exit_status for answer in answers} == {0}


@pytest.mark.asyncio
async def test_a_command_survives_the_loss_of_its_channel_as_under_openssh(box: Box):
    mark = box.root / "root" / "survived"
    async with connect(box) as connection:
        process: Any = await connection.create_process("echo up; sleep 0.5; : > survived")
        assert await process.stdout.readline() == "up\n"
        connection.abort()
    await asyncio.to_thread(wait_until, mark.exists, 5, "the command went on")


@pytest.mark.asyncio
async def test_a_terminal_is_given_and_hung_up(box: Box):
    async with connect(box) as connection:
        answer = await connection.run("tty; stty size", term_type="xterm", term_size=(100, 40))
        assert "/dev/pts/" in str(answer.stdout)
        assert "40 100" in str(answer.stdout)
        shell: Any = await connection.create_process(term_type="xterm")
        shell.stdin.write("echo $((6*7))\nexit 5\n")
        done = await asyncio.wait_for(shell.wait(), 5)
        assert "42" in str(done.stdout)
        assert done.exit_status == 5
        lost: Any = await connection.create_process(
            "trap ': > hung-up; exit' HUP; echo up; sleep 20 & wait", term_type="x"
        )
        assert "up" in await lost.stdout.readline()
        lost.close()
    mark = box.root / "root" / "hung-up"
    await asyncio.to_thread(wait_until, mark.exists, 5, "the kernel hung up the terminal")


@pytest.mark.asyncio
async def test_loopback_ports_are_forwarded_and_others_refused(box: Box):
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server, connect(box) as connection:
        reader, writer = await connection.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        writer.write(b"hello")
        assert await asyncio.wait_for(reader.read(), 5) == b"hello"
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("192.0.2.1", 80)


@pytest.mark.asyncio
async def test_an_unknown_key_and_an_unknown_host_key_are_refused(box: Box):
    with pytest.raises(asyncssh.PermissionDenied):
        async with connect(box, client_keys=[asyncssh.generate_private_key("ssh-ed25519")]):
            pass
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        async with connect(box, known_hosts=([], [], [])):
            pass


@pytest.mark.asyncio
async def test_the_reported_fingerprint_is_the_servers(box: Box):
    async with connect(box) as connection:
        key = connection.get_server_host_key()
        assert key is not None
        assert key.get_fingerprint() == box.facts["host_key_fingerprint"]


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the OpenSSH client: apt-get install openssh-client")
def test_the_openssh_client_works(box: Box):
    options = [f"UserKnownHostsFile={box.facts['known_hosts']}", "IdentitiesOnly=yes", "BatchMode=yes"]
    argv = ["ssh", "-F", os.devnull, "-p", str(box.facts["port"]), "-i", box.facts["identity_file"]]
    argv += [word for option in options for word in ("-o", option)]
    answer = subprocess.run(
        [*argv, f"{box.facts['user']}@127.0.0.1", "cat; npu-smi -v; exit 4"],
        input=b"\0in\n",
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (4, b"\0in\nnpu-smi version: 24.1.rc3\n")

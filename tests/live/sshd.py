"""Starts a real OpenSSH server on loopback with keys and configuration of its own, for the live tests."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import processes

SSHD_MISSING = "the OpenSSH server is not installed: apt-get install openssh-server"
HOST = "127.0.0.1"
READY_TIMEOUT_S = 15.0
START_ATTEMPTS = 3


class SshdError(Exception):
    """The server did not start; the text carries the end of its log."""


@dataclass(frozen=True)
class Sshd:
    """A running server and what a client needs to log in to it."""

    host: str
    port: int
    user: str
    identity_file: Path
    known_hosts: Path
    pid: int
    log: Path

    def client_argv(self) -> list[str]:
        """Return the `ssh` command up to the host, to which a remote command can be added."""
        options = {
            "UserKnownHostsFile": str(self.known_hosts),
            "GlobalKnownHostsFile": "none",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "10",
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        where = ["-p", str(self.port), "-i", str(self.identity_file), f"{self.user}@{self.host}"]
        return ["ssh", "-F", "none", *words, *where]


def sshd_path() -> Path | None:
    """Return the installed `sshd`, which is often outside PATH, or None."""
    found = shutil.which("sshd", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
    return Path(found).resolve() if found else None


def make_key(path: Path) -> Path:
    """Create a key pair without passphrase and return the private key's path."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "live-test", "-f", str(path)]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    return path


def free_port() -> int:
    """Return a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def write_config(directory: Path, port: int, extra_config: Sequence[str]) -> Path:
    """Write the server's configuration; extra lines come first because the first value of an option counts."""
    lines = [
        *extra_config,
        f"ListenAddress {HOST}:{port}",
        f'HostKey "{directory / "host_key"}"',
        f'PidFile "{directory / "sshd.pid"}"',
        f'AuthorizedKeysFile "{directory / "authorized_keys"}"',
        "StrictModes no",
        "UsePAM no",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "AllowTcpForwarding yes",
        "PrintMotd no",
        "Subsystem sftp internal-sftp",
    ]
    path = directory / "sshd_config"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def greets(port: int) -> bool:
    """Say whether an SSH server answers on the port."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            return connection.recv(8).startswith(b"SSH-")
    except OSError:
        return False


def wait_ready(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the server greets; False when it ended or the time is over."""
    deadline, pause = time.monotonic() + READY_TIMEOUT_S, 0.01
    while process.poll() is None and time.monotonic() < deadline:
        if greets(port):
            return process.poll() is None
        time.sleep(pause)
        pause = min(pause * 2, 0.5)
    return False


def start(server: Path, config: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the server in the foreground of a session of its own."""
    with log.open("ab") as out:
        argv = [str(server), "-D", "-e", "-f", str(config)]
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and the connections it still serves."""
    connections = processes.children(process.pid)
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=5)
    processes.end(connections)


def prepare(directory: Path) -> None:
    """Create the keys, the list of authorised keys and, for root, the directory that sshd insists on."""
    directory.mkdir(parents=True, exist_ok=True)
    make_key(directory / "host_key")
    client_key = make_key(directory / "client_key")
    shutil.copyfile(client_key.with_suffix(".pub"), directory / "authorized_keys")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)


def describe(directory: Path, port: int, pid: int) -> Sshd:
    """Write the client's `known_hosts` and return the facts of the running server."""
    known_hosts = directory / "known_hosts"
    host_key = (directory / "host_key.pub").read_text(encoding="utf-8")
    known_hosts.write_text(f"[{HOST}]:{port} {host_key}", encoding="utf-8")
    return Sshd(HOST, port, getpass.getuser(), directory / "client_key", known_hosts, pid, directory / "sshd.log")


@contextlib.contextmanager
def running_sshd(directory: Path, extra_config: Sequence[str] = ()) -> Generator[Sshd]:
    """Run a server with its files in `directory`, which must not hold an earlier one, and end it at exit.

    Raises: SshdError when sshd is not installed or does not start.
    """
    server = sshd_path()
    if server is None:
        raise SshdError(SSHD_MISSING)
    prepare(directory)
    log = directory / "sshd.log"
    # The free port may be taken before sshd binds it, so a failed start is tried again on another one.
    for _ in range(START_ATTEMPTS):
        port = free_port()
        process = start(server, write_config(directory, port, extra_config), log)
        try:
            if wait_ready(process, port):
                yield describe(directory, port, process.pid)
                return
        finally:
            stop(process)
    raise SshdError("sshd did not start:\n" + log.read_text(encoding="utf-8", errors="replace")[-2000:])

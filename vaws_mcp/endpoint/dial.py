"""Connections to ports that an endpoint reaches, as byte streams: from this machine, through SSH, into a container."""

import shlex
import subprocess
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import ByteStream
from anyio.streams.stapled import StapledByteStream

from vaws_mcp.core.context import Context
from vaws_mcp.core.failures import Failure
from vaws_mcp.endpoint.archive import NEWER_PYTHONS, PYTHONS
from vaws_mcp.endpoint.connect import host_link
from vaws_mcp.endpoint.containers import local_id
from vaws_mcp.endpoint.models import EndpointConfig

Dial = Callable[[], Awaitable[ByteStream]]

DIAL_TIMEOUT_S = 20.0
_MARK = b"\0VAWS-RELAY "
_MAX_BANNER = 64 << 10

# Runs inside the container, where only a program's standard streams reach. One connection, plain blocking copies: the
# pipes give the flow control. It ends with the service's connection, or when the caller has gone and the service has
# been silent for ten minutes.
_RELAY = r"""
import os, socket, sys, threading
def say(state):
    os.write(1, ("\0VAWS-RELAY %s\n" % state).encode())
try:
    service = socket.create_connection((sys.argv[1], int(sys.argv[2])), 15)
except OSError as error:
    say("failed %s" % (error.strerror or error))
    sys.exit(1)
service.settimeout(None)
say("connected")
def put(data):
    while data:
        data = data[os.write(1, data):]
def upload():
    try:
        while True:
            data = os.read(0, 65536)
            if not data:
                break
            service.sendall(data)
        service.shutdown(socket.SHUT_WR)
        service.settimeout(600)
    except OSError:
        os._exit(0)
sender = threading.Thread(target=upload)
sender.daemon = True
sender.start()
try:
    while True:
        data = service.recv(65536)
        if not data:
            break
        put(data)
    os.close(1)
except OSError:
    os._exit(0)
sender.join()
"""

_SHELL = """for p in {candidates}; do
p=$(command -v "$p" 2>/dev/null) && [ -x "$p" ] || continue
exec "$p" -I -S -u -c "$0" "$@"
done
printf '\\000VAWS-RELAY failed there is no python3\\n'"""


async def dial(ctx: Context, config: EndpointConfig, host: str, port: int) -> ByteStream:
    """Connect to ``host:port`` as the endpoint sees it. Half-closing works; both directions are flow controlled.

    Raises: Failure ``service_unreachable`` or ``forwarding_forbidden``, or one of connecting to the endpoint.
    """
    try:
        with anyio.fail_after(DIAL_TIMEOUT_S):
            if config.container:
                return await _into_container(ctx, config, host, port)
            if config.is_local:
                return await anyio.connect_tcp(host, port)
            from vaws_mcp.endpoint import ssh_dial

            return await ssh_dial.open_tcp(await host_link(ctx, config), host, port)
    except PermissionError as error:
        raise _forbidden(config, error) from None
    except OSError as error:  # TimeoutError too
        raise _unreachable(config, host, port, str(error) or "no answer in time") from None


async def _into_container(ctx: Context, config: EndpointConfig, host: str, port: int) -> ByteStream:
    pythons = (config.python,) if config.python else (*PYTHONS, *NEWER_PYTHONS)
    names = " ".join(shlex.quote(name) for name in pythons)
    inner = ["/bin/sh", "-c", _SHELL.format(candidates=names), _RELAY, host, str(port)]
    stream: ByteStream
    if config.is_local:
        argv = [config.runtime, "exec", "-i", await local_id(config, str(config.container)), *inner]
        stream = await _local_program(argv)
    else:
        from vaws_mcp.endpoint import ssh, ssh_dial

        link = await host_link(ctx, config)
        full_id = await ssh.container_id(link, config.runtime, str(config.container))
        stream = await ssh_dial.open_program(link, [config.runtime, "exec", "-i", full_id, *inner])
    try:
        return await _connected(stream, config, host, port)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await stream.aclose()
        raise


async def _connected(stream: ByteStream, config: EndpointConfig, host: str, port: int) -> ByteStream:
    """Read what the relay says first. It says nothing else before its service does, and no byte of that is taken."""
    seen = bytearray()
    while True:
        at = seen.find(_MARK)
        if at >= 0 and seen.endswith(b"\n"):
            break
        if len(seen) > _MAX_BANNER:
            raise _unreachable(config, host, port, "the relay in the container did not start")
        try:
            seen += await stream.receive(1)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            raise _unreachable(config, host, port, "the relay in the container did not start") from None
    state, _, why = seen[at + len(_MARK) :].decode("utf-8", "replace").strip().partition(" ")
    if state != "connected":
        raise _unreachable(config, host, port, why)
    return stream


class _Program(StapledByteStream):
    """The standard streams of a process on this machine, which ends with them."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        super().__init__(process.stdin, process.stdout)
        self._process = process

    async def aclose(self) -> None:
        """Close the streams, end the process and wait for it."""
        await super().aclose()
        if self._process.returncode is None:
            self._process.terminate()
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await self._process.wait()


async def _local_program(argv: list[str]) -> ByteStream:
    return _Program(await anyio.open_process(argv, stderr=subprocess.DEVNULL, start_new_session=True))


def _unreachable(config: EndpointConfig, host: str, port: int, why: str) -> Failure:
    return Failure(
        "service_unreachable",
        f"{config.address} cannot connect to {host}:{port}: {why}",
        layer="remote_workload",
        hint="Is the service running, and does it listen on that address?",
        retry_safe=True,
    )


def _forbidden(config: EndpointConfig, error: OSError) -> Failure:
    return Failure(
        "forwarding_forbidden",
        f"the SSH server of {config.address} forbids forwarding: {error}",
        layer="transport",
        hint="AllowTcpForwarding in its sshd_config must permit it.",
    )

"""The simulated container itself: one process that owns the sandbox, the SSH server and everything started by it."""

import asyncio
import os
import pwd
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import asyncssh

from vaws_mcp.sim.options import SimError, SimOptions
from vaws_mcp.sim.processes import MARKER_VARIABLE, ROOT_VARIABLE, drain, own_identity
from vaws_mcp.sim.sandbox import MODEL_NAME, build_sandbox
from vaws_mcp.sim.settings import TREE_VARIABLE, Settings, write_settings
from vaws_mcp.sim.ssh_server import SshFront
from vaws_mcp.sim.state import (
    RECORD,
    Report,
    check_git,
    discard,
    host_boot_id,
    lock,
    state_folder,
    wait_running,
    write_record,
)

HANDOVER_S = 10.0
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def environment(root: Path, marker: str, boot_id: str) -> dict[str, str]:
    """Return the variables every command in the container starts with; nothing of ours or the user's leaks in."""
    path = f"{root}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "HOME": f"{root}/root",
        "PATH": path,
        "USER": _user(),
        "LOGNAME": _user(),
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "VAWS_SIM": "1",
        MARKER_VARIABLE: marker,
        ROOT_VARIABLE: str(root),
        "VAWS_SIM_BOOT_ID": boot_id,
        "VAWS_LEASE_DIR": f"{root}/leases",
        TREE_VARIABLE: f"{root}/vllm-workspace/vllm-ascend",
        # setproctitle would overwrite the environment too, and with it the marker in /proc/PID/environ.
        "SPT_NOENV": "1",
    }


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "root"


def _settings(options: SimOptions, root: Path) -> Settings:
    me = own_identity()
    values = asdict(options)
    del values["root"], values["port"]
    return Settings(root=str(root), supervisor_pid=me.pid, supervisor_ticks=me.start_ticks, **values)


async def serve(options: SimOptions, state_dir: Path, on_ready: Callable[[Report], None]) -> None:
    """Run the container in the foreground until cancelled or told by SIGINT, SIGTERM or SIGHUP, then end all of it.

    When one runs for this state directory already, its facts go to ``on_ready`` with ``already_running`` true, and the
    call returns at once.
    Raises: SimUnsupported, SimError.
    """
    check_git()
    folder = state_folder(state_dir, create=True)
    with lock(folder) as held:
        if held is None:
            state = await asyncio.to_thread(wait_running, folder, HANDOVER_S, lambda: None)
            on_ready(state | {"already_running": True})
            return
        if survivors := await asyncio.to_thread(discard, folder):
            raise SimError(f"processes of an earlier simulated container do not end: {survivors}")
        await _serve_locked(options, folder, on_ready)


async def _serve_locked(options: SimOptions, folder: Path, on_ready: Callable[[Report], None]) -> None:
    root = options.root.absolute() if options.root else Path(tempfile.mkdtemp(prefix="root-", dir=folder))
    marker, boot_id = uuid.uuid4().hex, str(uuid.uuid4())
    leave = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in END_SIGNALS:
        loop.add_signal_handler(number, leave.set)
    front = None
    try:
        await asyncio.to_thread(build_sandbox, root)
        write_settings(_settings(options, root))
        front = SshFront(environment(root, marker, boot_id), root / "root")
        state = await _open(options, folder, root, front) | {"marker": marker, "boot_id": boot_id}
        write_record(folder, state)
        on_ready(state | {"already_running": False})
        await leave.wait()
    except (RuntimeError, OSError) as error:
        raise SimError(f"the simulated container could not start in {root}: {error}") from error
    finally:
        for number in END_SIGNALS:
            loop.remove_signal_handler(number)
        if front:
            front.close()
        # A plain call, not a thread: cancellation must not interrupt the clean-up.
        drain(marker)
        (folder / RECORD).unlink(missing_ok=True)
        if options.root is None:
            shutil.rmtree(root, ignore_errors=True)


async def _open(options: SimOptions, folder: Path, root: Path, front: SshFront) -> Report:
    host_key, client_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    identity = folder / "id_ed25519"
    _write_secret(identity, client_key.export_private_key("openssh"))
    client_key.write_public_key(str(folder / "id_ed25519.pub"))
    port = await front.listen(host_key, folder / "id_ed25519.pub", options.port)
    public = host_key.export_public_key("openssh").decode().strip()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public}\n", encoding="utf-8")
    me = own_identity()
    return {
        "endpoint": "sim",
        "host": "127.0.0.1",
        "port": port,
        "user": _user(),
        "identity_file": str(identity),
        "known_hosts": str(folder / "known_hosts"),
        "host_key_fingerprint": host_key.get_fingerprint(),
        "pid": me.pid,
        "start_ticks": me.start_ticks,
        "host_boot_id": host_boot_id(),
        "root": str(root),
        "owns_root": options.root is None,
        "devices": options.devices,
        "layout": options.layout,
        "vllm_repo": f"{root}/vllm-workspace/vllm",
        "vllm_ascend_repo": f"{root}/vllm-workspace/vllm-ascend",
        "model": f"{root}/models/{MODEL_NAME}",
        "workdir": str(front.workdir),
        "python": f"{root}/bin/python3",
        "noise": {"run": options.noise_run, "launch": options.noise_launch, "drift": options.drift},
        "tpot_ms": options.tpot_ms,
        "load_seconds": options.load_seconds,
        "seed": options.seed,
    }


def _write_secret(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)

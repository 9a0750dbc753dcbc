"""Running ``npu-smi``: where it is, with which libraries, and never longer than a bound."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from ...facts.npu.failures import Trouble
from ..child import Child, Spawn
from ..drain import Family, Pace, drain

PLACES = ("/usr/local/bin", "/usr/local/sbin", "/usr/local/Ascend/driver/tools")
LIBRARIES = ("lib64", "lib64/common", "lib64/driver")
DRIVER = "/usr/local/Ascend/driver"
_MAX_OUTPUT = 4 << 20
_CHECK_MS = 100
_PACE = Pace(0.5, 2.0)

Check = Callable[[], None]


class Said(NamedTuple):
    """What one run of npu-smi wrote, and why it cannot be used, if so."""

    text: str
    trouble: Optional[Trouble] = None


class Tool:
    """npu-smi on this machine; all its runs together end before ``deadline``. Units: deadline on the monotonic clock.

    ``check`` is called while it runs and may raise, which ends it.
    """

    def __init__(self, env: Dict[str, str], bound_s: float, check: Check) -> None:
        self._env = _with_libraries(env)
        self._deadline = time.monotonic() + bound_s
        self._bound_s = bound_s
        self._check = check
        self.path, self._missing = _find(env)

    def run(self, *words: str) -> Said:
        """Run ``npu-smi info`` with further words and return its output, errors after the rest."""
        if self.path is None:
            return Said("", self._missing)
        out, err = _Pipe(), _Pipe()
        try:
            try:
                child = self._start([self.path, "info", *words], out, err)
            except OSError as error:
                return Said("", _cannot_start(self.path, error))
            hung = self._await(child, [out, err])
            text = "\n".join(pipe.text() for pipe in (out, err) if pipe.data)
            return Said(text, self._hang(words) if hung else None)
        finally:
            out.close()
            err.close()

    def _start(self, argv: List[str], out: _Pipe, err: _Pipe) -> Child:
        stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return Child(Spawn(argv, "/", self._env, [stdin, out.write_fd, err.write_fd]))
        finally:
            os.close(stdin)
            out.close_write_end()
            err.close_write_end()

    def _await(self, child: Child, pipes: List[_Pipe]) -> bool:
        """Read until the end; True when it had to be killed."""
        ended = False
        try:
            ended = self._read(child, pipes)
        finally:
            if not ended:
                _kill(child)
            child.reap(1.0)
            child.close()
        return not ended

    def _read(self, child: Child, pipes: List[_Pipe]) -> bool:
        poller = select.poll()
        by_fd = {pipe.read_fd: pipe for pipe in pipes}
        for fd in (child.exit_fd, *by_fd):
            poller.register(fd, select.POLLIN)
        while True:
            self._check()
            left_ms = int((self._deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                return False
            events = poller.poll(min(left_ms, _CHECK_MS))
            for fd, _ in events:
                if fd in by_fd and not by_fd[fd].read():
                    poller.unregister(fd)
            if any(fd == child.exit_fd for fd, _ in events):
                for pipe in pipes:
                    pipe.read_rest()
                return True

    def _hang(self, words: Tuple[str, ...]) -> Trouble:
        command = " ".join(("npu-smi", "info", *words))
        return Trouble("npu_smi_hang", f"{command} did not end within {self._bound_s:g} s and was killed")


class _Pipe:
    """The output of a child: what exceeds the limit is read and dropped, so that it never blocks."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self.data = bytearray()

    def read(self) -> bool:
        """Take what is there; False at the end."""
        try:
            chunk = os.read(self.read_fd, 1 << 16)
        except BlockingIOError:
            return True
        self.data += chunk[: max(0, _MAX_OUTPUT - len(self.data))]
        return bool(chunk)

    def read_rest(self) -> None:
        """Take what the ended child left; one of its children may go on holding the pipe."""
        while select.select([self.read_fd], [], [], 0)[0] and len(self.data) < _MAX_OUTPUT and self.read():
            pass

    def text(self) -> str:
        """Return what was read."""
        return self.data.decode("utf-8", "replace")

    def close_write_end(self) -> None:
        """Close the end that belongs to the child."""
        os.close(self.write_fd)
        self.write_fd = -1

    def close(self) -> None:
        """Close what is open."""
        os.close(self.read_fd)
        if self.write_fd >= 0:
            os.close(self.write_fd)


def _kill(child: Child) -> None:
    if child.identity is None:
        with contextlib.suppress(OSError):
            child.kill_unreaped(signal.SIGKILL)
    else:
        drain(Family(child.identity, child.pid), _PACE)


def _find(env: Dict[str, str]) -> Tuple[Optional[str], Optional[Trouble]]:
    """Return the path of npu-smi, or why there is none that can be used."""
    folders = [folder for folder in env.get("PATH", os.defpath).split(os.pathsep) if folder.startswith("/")]
    places = list(dict.fromkeys([*folders, *PLACES]))
    found = [os.path.join(folder, "npu-smi") for folder in places]
    for path in found:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path, None
    for path in found:
        if os.path.isfile(path):
            return None, Trouble("npu_smi_permission", f"{path} may not be executed by this user", 126)
        if os.path.isdir(path):
            return None, Trouble("npu_smi_missing", f"{path} is a directory", 126)
    return None, Trouble("npu_smi_missing", f"npu-smi is neither on PATH nor in {', '.join(PLACES)}", 127)


def _with_libraries(env: Dict[str, str]) -> Dict[str, str]:
    """Add the driver's libraries, which sessions that read no profile lack."""
    known = [folder for folder in env.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder]
    added = [f"{DRIVER}/{name}" for name in LIBRARIES]
    added = [folder for folder in added if folder not in known and os.path.isdir(folder)]
    return {**env, "LD_LIBRARY_PATH": os.pathsep.join([*known, *added])} if added else env


def _cannot_start(path: str, error: OSError) -> Trouble:
    why = f"{path} cannot be started: {error.strerror or error}"
    if error.errno == errno.ENOEXEC:
        return Trouble("npu_smi_wrong_arch", why, 126)
    if error.errno in (errno.EACCES, errno.EPERM):
        return Trouble("npu_smi_permission", why, 126)
    return Trouble("npu_smi_missing" if error.errno == errno.ENOENT else "npu_smi_failed", why, 127)

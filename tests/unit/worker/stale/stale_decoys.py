"""Real processes with titles of vLLM, for tests that look at and end them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

from vaws_mcp.worker.facts import procfs

# Arguments: title, number of children, options. A child has the title of a worker.
CODE = """
import mmap, os, signal, sys, time
import setproctitle
title, children, options = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
pids = []
for number in range(children):
    pid = os.fork()
    if pid == 0:
        title, pids = "VLLM::Worker_TP%d" % number, []
        break
    pids.append(pid)
def leave(*_):
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in options else leave)
for option in options:
    if option.startswith("map="):
        file = open(option[4:], "w+b")
        file.truncate(4096)
        held = mmap.mmap(file.fileno(), 4096)
        file.close()
if "nobody" in options:
    os.setgid(65534)
    os.setuid(65534)
setproctitle.setproctitle(title)
end = time.monotonic() + 120
while time.monotonic() < end:
    time.sleep(0.2)
"""
# Starts the decoy and leaves it behind. Arguments: as above.
LEAVE = """
import subprocess, sys
out = subprocess.DEVNULL
child = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdout=out, start_new_session=True)
print(child.pid, flush=True)
"""
# A parent that stays. Its arguments may say anything.
STAY = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:5]], check=False)"


def until(look: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
    """Wait for something, or fail and say what did not come."""
    end, pause = time.monotonic() + seconds, 0.01
    while not look():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)


def titled(marker: str, title: str) -> list[int]:
    """Return the living processes with the marker whose title begins so."""
    mark = f"VAWS_SIM_MARKER={marker}".encode()
    found = (procfs.read_process(pid) for pid in procfs.pids())
    living = [one.pid for one in found if one is not None and one.alive]
    return sorted(pid for pid in living if procfs.title(pid).startswith(title) and procfs.has_variable(pid, mark))


class Decoys:
    """The decoys of one test; all carry its marker, so that nothing else on the machine is touched."""

    def __init__(self, marker: str, folder: Path) -> None:
        self.marker = marker
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "VAWS_SIM_MARKER": self.marker, "SPT_NOENV": "1", **more}

    def orphan(self, title: str = "VLLM::EngineCore", children: int = 0, options: str = "", **env: str) -> int:
        """Leave a process without its parent, and return its pid."""
        argv = [sys.executable, "-c", LEAVE, CODE, title, str(children), options]
        done = subprocess.run(argv, env=self.environment(**env), stdout=subprocess.PIPE, timeout=20, check=True)
        pid = int(done.stdout.split()[0])
        until(lambda: procfs.title(pid).startswith(title), f"process {pid} takes its title")
        below = [f"VLLM::Worker_TP{number}" for number in range(children)]
        until(lambda: all(titled(self.marker, name) for name in below), "its children take theirs")
        return pid

    def owned(self, parent: str, title: str = "VLLM::EngineCore") -> int:
        """Start a process below a living parent of the same session, whose arguments end with ``parent``."""
        script = self.folder / parent.split(maxsplit=1)[0]
        script.write_text(STAY, "utf-8")
        argv = [sys.executable, str(script), CODE, title, "0", "", *parent.split()[1:]]
        starter = subprocess.Popen(argv, env=self.environment(), start_new_session=True)
        self.started.append(starter)

        def below() -> list[int]:
            found = titled(self.marker, title)
            return [pid for pid in found if (one := procfs.read_process(pid)) is not None and one.ppid == starter.pid]

        until(lambda: bool(below()), "the owned process takes its title")
        return below()[0]

    def end(self) -> None:
        """End everything that carries the marker, one pid at a time."""
        mark = f"VAWS_SIM_MARKER={self.marker}".encode()
        for pid in procfs.pids():
            one = procfs.read_process(pid)
            if pid != os.getpid() and one is not None and one.alive and procfs.has_variable(pid, mark):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for starter in self.started:
            starter.wait(10)


@contextlib.contextmanager
def decoys(folder: Path) -> Generator[Decoys]:
    made = Decoys(f"stale-{os.getpid()}-{os.urandom(4).hex()}", folder)
    try:
        yield made
    finally:
        made.end()

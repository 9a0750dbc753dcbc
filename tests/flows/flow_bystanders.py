"""Processes that are nobody's business: each writes down every signal that it gets, and from whom.

As a program: ``flow_bystanders.py TITLE LOGIC ...`` waits for signals; with a logic id, not "", it occupies that NPU.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def trap(title: str, logic: str) -> None:
    """Note signals until killed."""
    numbers = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    if title:
        from setproctitle import setproctitle

        setproctitle(title)
    if logic:
        from vaws_mcp.sim.devices import hold
        from vaws_mcp.sim.processes import ROOT_VARIABLE

        hold(os.environ[ROOT_VARIABLE], int(logic), 20000)
    print("ready", flush=True)
    while True:
        got = signal.sigwaitinfo(numbers)
        print(f"signal {got.si_signo} from {got.si_pid}", flush=True)


@dataclass
class Bystander:
    """One of them, seen from the test."""

    name: str
    log: Path
    process: "subprocess.Popen[bytes]"

    @property
    def ready(self) -> bool:
        return self.log.read_text("utf-8").startswith("ready\n")

    def harm(self) -> str | None:
        """Say what was done to it."""
        noted = self.log.read_text("utf-8").splitlines()[1:]
        if noted:
            return f"bystander {self.name} got {noted}"
        status = self.process.poll()
        return None if status is None else f"bystander {self.name} ended with status {status}"

    def end(self) -> None:
        self.process.kill()
        self.process.wait(10)


@dataclass
class Bystanders:
    """All of them; ``folder`` is for their logs."""

    folder: Path
    all: list[Bystander] = field(default_factory=list[Bystander])

    def add(self, name: str, env: dict[str, str], *words: str, title: str = "", logic: str = "") -> Bystander:
        """Start one in a session of its own; ``words`` are further arguments, which say nothing."""
        log = self.folder / f"{len(self.all)}-{name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, __file__, title, logic, *words],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                start_new_session=True,
            )
        self.all.append(Bystander(name, log, process))
        return self.all[-1]

    def harms(self) -> list[str]:
        return [harm for one in self.all if (harm := one.harm())]

    def end(self, keep: int = 0) -> None:
        """End all but the first few."""
        for one in self.all[keep:]:
            one.end()
        del self.all[keep:]


if __name__ == "__main__":
    trap(sys.argv[1], sys.argv[2])

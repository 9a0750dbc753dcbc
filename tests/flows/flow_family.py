"""A process family in the simulated container, as a program: ``flow_family.py KIND``.

``plain`` obeys. ``heir`` leaves, when it is told to end, a daemon that ends only when it is told too. ``leaver`` ends
by itself and leaves such a daemon. ``deaf`` and its child hear SIGKILL alone. ``short`` ends at once, with status 0.
All hold the devices that the command was given.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from vaws_mcp.sim.devices import hold
from vaws_mcp.sim.processes import ROOT_VARIABLE

MEMORY_MB = 9000
LIFE_S = 900.0


def take() -> None:
    """Hold the devices."""
    for logic in filter(None, os.environ.get("ASCEND_RT_VISIBLE_DEVICES", "").split(",")):
        hold(os.environ[ROOT_VARIABLE], int(logic), MEMORY_MB)


def rest(*deaf_to: signal.Signals) -> NoReturn:
    """Hold the devices until the end."""
    for number in deaf_to:
        signal.signal(number, signal.SIG_IGN)
    take()
    sys.stdout.write(f"{os.getpid()}\n")
    sys.stdout.flush()
    time.sleep(LIFE_S)
    os._exit(0)


def daemon(*deaf_to: signal.Signals) -> None:
    """Start a process in a session of its own, whose parent ends at once."""
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            rest(*deaf_to)
        os._exit(0)
    os.waitpid(child, 0)


def main(kind: str) -> None:
    take()
    if kind == "deaf":
        daemon(signal.SIGINT, signal.SIGTERM)
        rest(signal.SIGINT, signal.SIGTERM)
    if kind in ("heir", "leaver"):
        daemon()
    if kind in ("plain", "heir"):
        rest()


if __name__ == "__main__":
    main(sys.argv[1])

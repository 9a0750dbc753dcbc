"""A simulated container with Ascend NPUs, reached over SSH like a real one.

It stands beside the rest of the project: it imports nothing of it, and prints every format by itself, so that it cannot
agree with our own parsers by construction. Importing this package costs next to nothing.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vaws_mcp.sim.options import SimError, SimOptions, SimUnsupported

__all__ = ["SimError", "SimOptions", "SimUnsupported", "serve", "start_detached", "status", "stop"]

Report = dict[str, Any]


async def serve(options: SimOptions, state_dir: Path, on_ready: Callable[[Report], None]) -> None:
    """Run the container in the foreground until cancelled or told by SIGINT, SIGTERM or SIGHUP, then end all of it.

    When one runs for this state directory already, its facts go to ``on_ready`` with ``already_running`` true, and the
    call returns at once.
    Raises: SimUnsupported, SimError.
    """
    _check_platform()
    from vaws_mcp.sim import container

    await container.serve(options, state_dir, on_ready)


def start_detached(options: SimOptions, state_dir: Path) -> Report:
    """Start the container in a session of its own and return its facts when it is ready.

    Raises: SimUnsupported, SimError.
    """
    _check_platform()
    from vaws_mcp.sim import control

    return control.start_detached(options, state_dir)


def status(state_dir: Path) -> Report:
    """Say whether the container of a state directory is ``running``, with its facts.

    Raises: SimUnsupported, SimError.
    """
    _check_platform()
    from vaws_mcp.sim import control

    return control.status(state_dir)


def stop(state_dir: Path) -> Report:
    """Stop the container and every process in it; one that does not run is not an error.

    Returns ``was_running``, ``stopped``, the number of processes ``signalled`` and the pids of ``survivors``.
    Raises: SimUnsupported, SimError.
    """
    _check_platform()
    from vaws_mcp.sim import control

    return control.stop(state_dir)


def _check_platform() -> None:
    if sys.platform != "linux":
        hint = "use `remote-dev demo --on ENDPOINT` with a Linux machine you can reach by SSH"
        raise SimUnsupported(f"the simulated container needs Linux (this is {sys.platform}); {hint}")

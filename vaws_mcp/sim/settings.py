"""What the programs inside the container must know, kept in one file of the sandbox."""

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from vaws_mcp.sim.processes import ROOT_VARIABLE, Identity, is_alive

FAULT_VARIABLE = "VAWS_SIM_FAULT"
TREE_VARIABLE = "VLLM_ASCEND_SIM_TREE"
FAULTS = frozenset({"never_ready", "die_loading", "hang_on_stop", "leave_orphans", "half_fail", "bench_zero"})
VLLM_VERSION = "0.32.0"


@dataclass(frozen=True)
class Settings:
    """Hardware, latency and noise of one simulated container, and who supervises it.

    Units: ``noise_run``, ``noise_launch`` and ``drift`` are fractions of the time per output token.
    """

    root: str
    devices: int
    layout: str
    seed: int
    noise_run: float
    noise_launch: float
    drift: float
    load_seconds: float
    tpot_ms: float
    supervisor_pid: int
    supervisor_ticks: int

    def supervised(self) -> bool:
        """Say whether the container itself is still up; nothing inside may outlive it."""
        return is_alive(Identity(self.supervisor_pid, self.supervisor_ticks))


def write_settings(settings: Settings) -> None:
    """Write the settings into the sandbox, atomically."""
    path = Path(settings.root) / "settings.json"
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(asdict(settings)), encoding="utf-8")
    draft.replace(path)


def read_settings(root: str | None = None) -> Settings:
    """Read the settings of the container this process runs in.

    Raises: RuntimeError outside a simulated container.
    """
    root = root or os.environ.get(ROOT_VARIABLE)
    if not root:
        raise RuntimeError(f"{ROOT_VARIABLE} is not set: this program runs only inside the simulated container")
    return Settings(**json.loads((Path(root) / "settings.json").read_text(encoding="utf-8")))


def active_faults(settings: Settings) -> frozenset[str]:
    """Return the faults switched on by the environment or by the file ``faults`` in the sandbox.

    Raises: ValueError for a name that is no fault, so that a typing mistake cannot pass for a healthy run.
    """
    names = os.environ.get(FAULT_VARIABLE, "").replace(",", " ").split()
    with contextlib.suppress(FileNotFoundError):
        names += (Path(settings.root) / "faults").read_text(encoding="utf-8").split()
    unknown = sorted(set(names) - FAULTS)
    if unknown:
        raise ValueError(f"unknown fault {', '.join(unknown)}; known: {', '.join(sorted(FAULTS))}")
    return frozenset(names)

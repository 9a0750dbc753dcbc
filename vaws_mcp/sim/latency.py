"""How long a simulated token takes, and how much that varies.

The time per output token (TPOT) is the container's declared value times the factor found in the checked-out
vllm-ascend tree, times noise: one factor per launch, one per benchmark run, and a drift that grows over the first
``DRIFT_LAUNCHES`` launches. All factors come from the seed and from counters, so a sequence can be repeated exactly.
"""

import fcntl
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

from vaws_mcp.sim import chance
from vaws_mcp.sim.settings import TREE_VARIABLE, Settings

DRIFT_LAUNCHES = 20
PREFILL_BASE_S = 0.010
PREFILL_TOKEN_S = 0.00005
DRAFT_COST = 0.05
MODEL_FILE = Path("vllm_ascend", "simulation.json")


@dataclass(frozen=True)
class TreeModel:
    """What the checked-out source tree says about speed."""

    decode_scale: float = 1.0
    prefill_scale: float = 1.0
    acceptance: float = 0.7
    faults: tuple[str, ...] = ()


def read_tree(tree: str | None = None) -> TreeModel:
    """Read ``vllm_ascend/simulation.json`` of the tree; a missing file means the defaults.

    Raises: ValueError when the file is not an object of known fields, as a broken commit would fail to start.
    """
    tree = tree or os.environ.get(TREE_VARIABLE, "")
    path = Path(tree) / MODEL_FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return TreeModel()
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: {error}") from None
    try:
        faults: list[str] = values.pop("faults", [])
        return TreeModel(faults=tuple(faults), **values)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{path}: {error}") from None


def next_launch(root: str) -> int:
    """Count this launch: 0 for the first one in this sandbox, then one more each time."""
    with (Path(root) / "launches").open("a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or 0)
        file.truncate(0)
        file.write(str(number + 1))
    return number


def noise_factor(seed: int, spread: float, *names: object) -> float:
    """Return a factor around 1 with relative standard deviation ``spread``, fixed by seed and names."""
    if not spread:
        return 1.0
    return math.exp(chance.source(seed, *names).gauss(0.0, spread))


@dataclass(frozen=True)
class LatencyModel:
    """Latency of one launch. Units: seconds."""

    settings: Settings
    tree: TreeModel
    launch: int

    def tpot(self, run: int) -> float:
        """Time per output token in the given benchmark run of this launch."""
        settings = self.settings
        drift = 1.0 + settings.drift * min(self.launch, DRIFT_LAUNCHES) / DRIFT_LAUNCHES
        launch = noise_factor(settings.seed, settings.noise_launch, "launch", self.launch)
        per_run = noise_factor(settings.seed, settings.noise_run, "run", self.launch, run)
        return settings.tpot_ms / 1000.0 * self.tree.decode_scale * drift * launch * per_run

    def step(self, run: int, draft_tokens: int) -> float:
        """Time of one decoding step that checks so many draft tokens."""
        return self.tpot(run) * (1.0 + DRAFT_COST * draft_tokens)

    def ttft(self, prompt_tokens: int) -> float:
        """Time to the first token."""
        return (PREFILL_BASE_S + PREFILL_TOKEN_S * prompt_tokens) * self.tree.prefill_scale

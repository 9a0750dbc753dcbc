"""`remote-dev npu-probe` on the simulated container, in both of its layouts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

BOUND_S = 60.0
HOLD = """import sys
from vaws_mcp.sim.devices import hold
hold(sys.argv[1], 3, 40000)
print("held", flush=True)
input()
"""


class Sim:
    """A simulated container of one layout."""

    def __init__(self, state_dir: Path, layout: str) -> None:
        self.layout = layout
        self.env = {**os.environ, "VAWS_STATE_DIR": str(state_dir)}
        self.root = str(self("sim-start", "--detach", "--layout", layout)["root"])

    def __call__(self, *words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "vaws_mcp", *words]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=BOUND_S, check=False)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def probe(self) -> dict[str, Any]:
        return self("npu-probe", "--endpoint", "sim")


@pytest.fixture(scope="module", params=["a2", "a3"])
def sim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sim]:
    started = Sim(tmp_path_factory.mktemp("npu") / ".vaws-local", str(request.param))
    try:
        yield started
    finally:
        stopped = started("sim-stop")
    assert stopped["stopped"]


@pytest.fixture
def held(sim: Sim) -> Iterator[subprocess.Popen[bytes]]:
    """A process of an execution that holds the device 3."""
    env = {**sim.env, "VAWS_EXECUTION_ID": "exec-3"}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, sim.root], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        process.communicate(b"\n", timeout=BOUND_S)


def test_an_idle_container_is_free_with_all_its_ids(sim: Sim) -> None:
    answer = sim.probe()
    assert (answer["outcome"], answer["simulated"], answer["probed_on"]) == ("success", True, "endpoint")
    assert answer["layout"] == {"a2": "classic", "a3": "a3"}[sim.layout]
    assert [device["logic"] for device in answer["free"]] == list(range(8))
    places = [(row["npu"], row["chip"]) for row in answer["map"]]
    assert places == [divmod(number, 2) if sim.layout == "a3" else (number, 0) for number in range(8)]
    assert len({row["bus_id"] for row in answer["map"]}) == 8
    assert answer["warnings"] == []


def test_a_busy_device_names_its_holder(sim: Sim, held: subprocess.Popen[bytes]) -> None:
    answer = sim.probe()
    assert [device["logic"] for device in answer["busy"]] == [3]
    holder = answer["busy"][0]["holders"][0]
    assert (holder["pid"], holder["execution_id"], holder["memory_mb"]) == (held.pid, "exec-3", 40000)
    assert holder["user"]
    assert [device["logic"] for device in answer["free"]] == [0, 1, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("words", ["info", "info -m", "info -l", "info -t health -i 1", "info -t proc-mem -i 1"])
def test_what_its_npu_smi_prints_can_be_saved_and_read(sim: Sim, tmp_path: Path, words: str) -> None:
    printed = sim("bash", "--endpoint", "sim", f"npu-smi {words}")["stdout"]
    path = tmp_path / "saved.txt"
    path.write_text(printed, encoding="utf-8")
    answer = sim("npu-probe", "--from-file", str(path))
    assert answer["outcome"] == "success", answer
    kind = {"-m": "map", "-l": "list", "health": "health", "proc-mem": "proc-mem"}
    assert answer["kind"] == next((kind[word] for word in words.split() if word in kind), "info")

"""One simulated container without noise, for all tests of this folder."""

from collections.abc import Iterator

import pytest
from sim_box import QUIET, Box

import vaws_mcp.sim as sim


@pytest.fixture(scope="session")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    state_dir = tmp_path_factory.mktemp("box")
    facts = sim.start_detached(QUIET, state_dir)
    yield Box(facts)
    assert sim.stop(state_dir)["stopped"]

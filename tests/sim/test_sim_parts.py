"""Parts of the simulation on their own: latency, text, faults, percentiles."""

import math
import statistics
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaws_mcp.sim import chance
from vaws_mcp.sim.bench_report import percentile
from vaws_mcp.sim.devices import visible_devices
from vaws_mcp.sim.latency import LatencyModel, TreeModel, next_launch, read_tree
from vaws_mcp.sim.options import SimError, SimOptions
from vaws_mcp.sim.sandbox import build_sandbox
from vaws_mcp.sim.settings import Settings, active_faults, read_settings, write_settings
from vaws_mcp.sim.text import accepted_lengths, answer, count_tokens, random_prompt, tokenize

SETTINGS = Settings("/nowhere", 8, "a2", 7, 0.02, 0.03, 0.05, 1.0, 20.0, 1, 1)


def model(launch: int, **changes: float) -> LatencyModel:
    return LatencyModel(replace(SETTINGS, **changes), TreeModel(), launch)  # pyright: ignore[reportArgumentType]


def test_without_noise_every_run_of_every_launch_is_the_same():
    values = {model(n, noise_run=0, noise_launch=0, drift=0).tpot(run) for n in range(5) for run in range(5)}
    assert values == {0.020}


def test_noise_is_repeatable_and_depends_on_the_seed():
    def values(seed: int) -> list[float]:
        return [model(n, seed=seed).tpot(run) for n in range(3) for run in range(3)]

    assert values(1) == values(1) != values(2)
    assert len(set(values(1))) == 9


def test_noise_has_the_declared_size():
    launches = [math.log(model(n, noise_run=0, drift=0).tpot(0) / 0.020) for n in range(2000)]
    runs = [math.log(model(0, noise_launch=0, drift=0).tpot(run) / 0.020) for run in range(2000)]
    assert statistics.stdev(launches) == pytest.approx(0.03, rel=0.1)
    assert statistics.stdev(runs) == pytest.approx(0.02, rel=0.1)


def test_drift_grows_to_its_declared_size_and_stays():
    values = [model(n, noise_run=0, noise_launch=0).tpot(0) / 0.020 for n in (0, 10, 20, 50)]
    assert values == pytest.approx([1.0, 1.025, 1.05, 1.05])


def test_the_tree_scales_decoding_and_prefill():
    slow = replace(model(0, noise_run=0, noise_launch=0, drift=0), tree=TreeModel(decode_scale=1.1, prefill_scale=2))
    assert slow.tpot(1) == pytest.approx(0.022)
    assert slow.ttft(100) == pytest.approx(2 * 0.015)


def test_a_tree_without_a_file_has_the_defaults_and_a_wrong_one_is_refused(tmp_path: Path):
    assert read_tree(str(tmp_path)) == TreeModel()
    (tmp_path / "vllm_ascend").mkdir()
    for text in ("[]", '{"unknown": 1}', "{"):
        (tmp_path / "vllm_ascend" / "simulation.json").write_text(text)
        with pytest.raises(ValueError, match=r"simulation\.json"):
            read_tree(str(tmp_path))


@pytest.mark.parametrize("wrong", [{"devices": 0}, {"layout": "a9"}, {"tpot_ms": 0.0}, {"drift": -0.1}])
def test_options_that_make_no_sense_are_refused(wrong: dict[str, Any]):
    with pytest.raises(SimError):
        SimOptions(**wrong)


def test_launches_are_counted_without_gaps_or_doubles(tmp_path: Path):
    with ThreadPool(8) as pool:
        numbers = pool.map(lambda _: next_launch(str(tmp_path)), range(40))
    assert sorted(numbers) == list(range(40))


def test_settings_survive_a_round_trip(tmp_path: Path):
    settings = replace(SETTINGS, root=str(tmp_path))
    write_settings(settings)
    assert read_settings(str(tmp_path)) == settings


def test_programs_refuse_to_run_outside_a_container(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("VAWS_SIM_ROOT", raising=False)
    with pytest.raises(RuntimeError, match="VAWS_SIM_ROOT"):
        read_settings()


def test_faults_come_from_both_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = replace(SETTINGS, root=str(tmp_path))
    monkeypatch.setenv("VAWS_SIM_FAULT", "half_fail, never_ready")
    (tmp_path / "faults").write_text("bench_zero\n")
    assert active_faults(settings) == {"half_fail", "never_ready", "bench_zero"}


def test_visible_devices_are_checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "3, 1")
    assert visible_devices(4) == [3, 1]
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "4")
    with pytest.raises(ValueError, match=r"error, input data rang\[0-4\)"):
        visible_devices(4)
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES")
    assert visible_devices(3) == [0, 1, 2]


def test_building_a_sandbox_twice_keeps_what_people_changed(tmp_path: Path):
    build_sandbox(tmp_path)
    changed = tmp_path / "vllm-workspace" / "vllm-ascend" / "README.md"
    changed.write_text("mine\n")
    build_sandbox(tmp_path)
    assert changed.read_text() == "mine\n"


@given(st.text())
def test_tokens_join_to_the_text(text: str):
    assert "".join(tokenize(text)) == text


@given(st.integers(1, 200), st.integers())
def test_a_random_prompt_has_exactly_its_tokens(tokens: int, seed: int):
    assert count_tokens(random_prompt(chance.source(seed), tokens)) == tokens


@given(st.text(max_size=20), st.integers(1, 300), st.booleans())
def test_an_answer_keeps_its_limit(prompt: str, limit: int, whole: bool):
    tokens, reason = answer(prompt, limit, whole=whole)
    assert len(tokens) == limit or (len(tokens) < limit and not whole)
    assert (reason == "length") == (len(tokens) == limit)
    assert count_tokens("".join(tokens)) == len(tokens)


@given(st.integers(0, 300), st.integers(0, 5), st.floats(0, 1))
def test_decoding_steps_yield_all_tokens(total: int, drafts: int, acceptance: float):
    steps = accepted_lengths(chance.source("x"), total, drafts, acceptance)
    assert sum(count for count, _ in steps) == total
    assert all(count == accepted + 1 <= drafts + 1 for count, accepted in steps)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_agree_with_numpy(values: list[float], rank: float):
    numpy = pytest.importorskip("numpy")
    assert percentile(values, rank) == pytest.approx(float(numpy.percentile(values, rank)), rel=1e-9, abs=1e-6)

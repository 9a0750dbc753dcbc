"""`remote-dev npu-probe --from-file`, as a script calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from npu_samples import EXPECTED, NAMES, differences, needs_samples, path_of
from npu_texts import chips, id_map, info

from vaws_mcp.cli.commands import run_command

FIELDS = (
    *("npu", "chip", "logic", "phy", "name", "health", "power_w", "temp_c", "bus_id", "util_pct"),
    *("hbm_used_mb", "hbm_total_mb", "pids", "occupancy", "reason"),
)


class Spoken(NamedTuple):
    code: int
    answer: dict[str, Any]


class Cli:
    def __init__(self, state_dir: Path) -> None:
        self.env = {**os.environ, "VAWS_STATE_DIR": str(state_dir)}

    def __call__(self, *words: str, stdin: str | None = None) -> Spoken:
        command = [sys.executable, "-m", "vaws_mcp", "npu-probe", *words]
        done = subprocess.run(
            command,
            env=self.env,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Spoken(done.returncode, json.loads(done.stdout))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path / "state")


def saved(folder: Path, text: str) -> str:
    path = folder / "saved.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_saved_table_is_answered_without_any_endpoint(cli: Cli, tmp_path: Path) -> None:
    devices = chips("a3", 2)
    devices[1] = replace(devices[1], used=45000, processes=((4242, "VLLMWorker_TP", 40000, None),))
    devices[3] = replace(devices[3], health="Alarm")
    code, answer = cli("--from-file", saved(tmp_path, info("a3", devices)))
    assert (code, answer["outcome"]) == (0, "success")
    assert (answer["kind"], answer["layout"], answer["driver"]) == ("info", "a3", "25.2.0")
    assert set(FIELDS) <= set(answer["devices"][0])
    assert [one["occupancy"] for one in answer["devices"]] == ["free", "occupied", "free", "unhealthy"]
    assert [one["lease_name"] for one in answer["free"]] == [devices[0].bus, devices[2].bus]
    assert answer["busy"][0]["holders"][0]["pid"] == 4242
    assert answer["unhealthy"][0]["health"] == "Alarm"
    assert "2 free" in answer["summary"]


def test_standard_input_is_a_file_too_and_the_kind_may_be_an_option(cli: Cli) -> None:
    text = id_map(chips("classic"))
    for words in ((), ("--kind", "map"), ("--kind", "m"), ("--kind=-m",)):
        code, answer = cli("--from-file", "-", *words, stdin=text)
        assert code == 0
        assert [(row["npu"], row["logic"]) for row in answer["map"]] == [(0, 0), (1, 1), (2, 2)]


def test_a_cut_table_fails_and_still_shows_what_is_known(cli: Cli, tmp_path: Path) -> None:
    code, answer = cli("--from-file", saved(tmp_path, info("classic", chips("classic"))[:-300]))
    assert (code, answer["outcome"]) == (1, "failed")
    assert (answer["error"]["layer"], answer["error"]["code"]) == ("device", "truncated")
    assert answer["free"] == []
    assert len(answer["unknown"]) == 3


def test_what_npu_smi_complained_of_fails_with_a_hint(cli: Cli, tmp_path: Path) -> None:
    code, answer = cli("--from-file", saved(tmp_path, "dcmi module initialize failed. ret is -8005\n"))
    assert (code, answer["outcome"], answer["exit_code"]) == (1, "failed", 187)
    assert answer["error"]["code"] == "driver_unavailable"
    assert "davinci_manager" in answer["error"]["hint"]


def test_a_kind_without_a_text_is_refused(cli: Cli) -> None:
    code, answer = cli("--kind", "map")
    assert (code, answer["error"]["code"]) == (2, "no_text")


def test_a_file_that_cannot_be_read_is_refused(cli: Cli, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        code, answer = cli("--from-file", str(path))
        assert (code, answer["error"]["code"]) == (2, "file_unreadable")


@needs_samples
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_answered_as_expected(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # The command line without a process of its own for each of them.
    monkeypatch.setenv("VAWS_STATE_DIR", str(tmp_path / "state"))
    code = run_command(["npu-probe", "--from-file", str(path_of(name))])
    answer = json.loads(capfd.readouterr().out)
    wanted = EXPECTED[name].get("error")
    error = answer.get("error")
    assert (error["code"] if error else None) == wanted
    assert code == (1 if wanted else 0)
    assert differences(name, {**answer, "error": wanted}) == {}
    assert error is None or error["hint"]

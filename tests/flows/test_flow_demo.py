"""`remote-dev demo`: what it shows, how long it takes, and that nothing stays behind."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from flow_world import COMMAND, Cli, processes_with, surroundings, until

pytestmark = pytest.mark.slow


def test_the_demo_shows_the_main_job_and_cleans_up_after_itself(tmp_path: Path) -> None:
    temporary, out = tmp_path / "tmp", tmp_path / "report"
    temporary.mkdir()
    spoken = Cli(tmp_path / "unused")("demo", "--json", "--out", str(out), TMPDIR=str(temporary))

    answer = spoken.answer
    assert (spoken.code, answer["simulated"], answer["outcome"]) == (0, True, "success")
    assert answer["duration_ms"] < 60_000
    baseline, candidate = answer["comparison"]
    assert baseline["delta_tpot_pct_vs_first"] == 0
    assert 7 <= candidate["delta_tpot_pct_vs_first"] <= 13
    assert {Path(path) for path in answer["report_paths"].values()} == {
        out / f"report.{kind}" for kind in ("md", "html", "csv")
    }
    page = (out / "report.html").read_text("utf-8")
    assert "<svg" in page or "data:image" in page
    assert 'src="http' not in page
    assert any("candidate: first token" in event["message"] for event in spoken.progress)
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "unused").exists()
    assert processes_with(str(tmp_path).encode()) == {}


def test_ctrl_c_in_the_middle_of_the_demo_leaves_no_process(tmp_path: Path) -> None:
    temporary, log = tmp_path / "tmp", tmp_path / "log"
    temporary.mkdir()
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [*COMMAND, "demo", "--json", "--out", str(tmp_path / "report")],
            env=surroundings(tmp_path / "unused", TMPDIR=str(temporary)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        ) as demo,
    ):
        try:
            until(lambda: b"baseline: first token" in log.read_bytes(), 40, "the first state is measured")
            assert len(processes_with(str(tmp_path).encode())) > 5
            os.kill(demo.pid, signal.SIGINT)
            stdout, _ = demo.communicate(timeout=40)
        finally:
            if demo.poll() is None:
                demo.kill()

    assert demo.returncode == 130, log.read_text("utf-8")
    assert stdout == b""
    until(lambda: not processes_with(str(tmp_path).encode()), 5, "no process is left")
    (kept,) = temporary.iterdir()
    assert str(kept) in log.read_text("utf-8")
    (record,) = kept.glob(".vaws-local/tasks/*/task.json")
    assert json.loads(record.read_text("utf-8"))["state"] == "finished"

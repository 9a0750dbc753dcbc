"""The phases of a start are read from vLLM's own lines, of several versions."""

from __future__ import annotations

import pytest

from vaws_mcp.serving.timeline import Timeline

V032 = """\
(APIServer pid=1) INFO 11-30 12:00:00 [api_utils.py:286] non-default args: {}
(Worker_TP0 pid=3) INFO 11-30 12:00:10 [cpu_model_runner.py:68] Starting to load model /m...
(Worker_TP0 pid=3) INFO 11-30 12:00:20 [default_loader.py:501] Loading weights took 9.50 seconds
(Worker_TP0 pid=3) INFO 11-30 12:00:21 [backends.py:548] Using cache directory: /c for vLLM's torch.compile
(Worker_TP0 pid=3) INFO 11-30 12:00:50 [monitor.py:34] torch.compile takes 28.25 s in total
(Worker_TP0 pid=3) INFO 11-30 12:01:10 [model_runner_v1.py:3011] Graph capturing finished in 19 secs, took 0.41 GiB
(EngineCore pid=2) INFO 11-30 12:01:11 [core.py:402] init engine (profile, create kv cache, warmup model) took 50.1 s
(APIServer pid=1) INFO 11-30 12:01:12 [entry.py:140] Starting vLLM server on http://127.0.0.1:8000
INFO:     Application startup complete.
"""
V08 = """\
INFO 02-13 15:01:00 api_server.py:912] vLLM API server version 0.8.5
INFO 02-13 15:01:05 model_runner.py:110] Starting to load model /m...
Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:07<00:00,  1.93s/it]
INFO 02-13 15:01:30 model_runner.py:115] Model loading took 14.2717 GB and 24.871211 seconds
INFO 02-13 15:01:40 monitor.py:33] torch.compile takes 10.03 s in total
INFO 02-13 15:01:59 gpu_model_runner.py:1043] Graph capturing finished in 19 secs, took 0.52 GiB
INFO 02-13 15:02:00 core.py:138] init engine (profile, create kv cache, warmup model) took 29.90 seconds
INFO 02-13 15:02:01 api_server.py:1028] Starting vLLM API server on http://0.0.0.0:8000
"""


def test_the_phases_of_a_new_version_are_read() -> None:
    timeline = Timeline()
    timeline.text(V032)
    assert timeline.phases() == {
        "weights": 20.0,
        "compile": 50.0,
        "graph_capture": 70.0,
        "engine": 71.0,
        "http": 72.0,
    }
    assert timeline.took == {"weights": 9.5, "compile": 28.25, "graph_capture": 19.0, "engine": 50.1}
    assert timeline.phase == "http"


def test_the_phases_of_an_old_version_are_read() -> None:
    timeline = Timeline()
    timeline.text(V08)
    assert list(timeline.phases()) == ["weights", "compile", "graph_capture", "engine", "http"]
    assert timeline.took["weights"] == pytest.approx(24.87, abs=0.01)


@pytest.mark.parametrize(("lines", "phase"), [(0, "init"), (1, "init"), (2, "weights"), (4, "compile"), (7, "engine")])
def test_the_present_phase_is_the_farthest_that_has_begun(lines: int, phase: str) -> None:
    timeline = Timeline()
    timeline.text("".join(V032.splitlines(keepends=True)[:lines]))
    assert timeline.phase == phase


def test_of_several_ranks_the_slowest_ends_a_phase() -> None:
    timeline = Timeline()
    timeline.text(V032.splitlines(keepends=True)[0])
    for rank, second, took in ((0, 20, 9.5), (1, 40, 29.0)):
        timeline.text(
            f"(Worker_TP{rank} pid=3) INFO 11-30 12:00:{second} [l.py:1] Loading weights took {took} seconds\n"
        )
    assert timeline.phases() == {"weights": 40.0}
    assert timeline.took == {"weights": 29.0}


def test_when_somebody_watched_our_own_clock_counts() -> None:
    timeline = Timeline()
    lines = V032.splitlines(keepends=True)
    timeline.text("".join(lines[:3]), 10.25)
    timeline.text("".join(lines[3:5]), 41.5)
    assert timeline.phases() == {"weights": 10.25, "compile": 41.5}


def test_a_start_over_new_year_takes_no_negative_time() -> None:
    timeline = Timeline()
    timeline.text("INFO 12-31 23:59:50 [x.py:1] Resolved architecture: A\n")
    timeline.text("INFO 01-01 00:00:10 [x.py:1] Loading weights took 5.0 seconds\n")
    assert timeline.phases() == {"weights": 20.0}


@pytest.mark.parametrize("stamp", ["13-01 00:00:00", "02-31 10:00:00", "01-01 29:00:00"])
def test_a_stamp_that_is_no_date_is_passed_over(stamp: str) -> None:
    timeline = Timeline()
    timeline.text(f"INFO {stamp} [x.py:1] Loading weights took 5.0 seconds\n")
    assert timeline.phases() == {}
    assert timeline.took == {"weights": 5.0}

"""The simulated `vllm serve`: processes, start, API, stop and faults."""

import os
import re
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sim_box import Box, fixture_text, http, wait_until

from vaws_mcp.sim.api_server import bind
from vaws_mcp.sim.settings import read_settings, write_settings


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_the_process_tree_has_the_real_titles(box: Box):
    with box.serve("--tensor-parallel-size", "2") as served:
        (engine,) = box.pids("VLLM::EngineCore")
        workers = box.pids("VLLM::Worker_TP0") + box.pids("VLLM::Worker_TP1")
        assert parent(engine) == served.process.pid
        assert [parent(worker) for worker in workers] == [engine, engine]
        assert Path(f"/proc/{engine}/comm").read_text() == "VLLM::EngineCor\n"
        assert Path(f"/proc/{served.process.pid}/comm").read_text() == "vllm\n"
        assert any("vllm serve" in title for title in box.titles())


def test_data_parallel_engines_have_numbered_titles(box: Box):
    with box.serve("-dp", "2", "-tp", "2"):
        titles = [title for title in box.titles() if title.startswith("VLLM::")]
    expected = [
        "EngineCore_DP0",
        "EngineCore_DP1",
        "Worker_DP0_TP0",
        "Worker_DP0_TP1",
        "Worker_DP1_TP0",
        "Worker_DP1_TP1",
    ]
    assert titles == [f"VLLM::{name}" for name in expected]


def test_the_log_goes_through_the_phases_in_order(box: Box):
    with box.serve() as served:
        text = served.log.read_text()
    phases = [
        "version 0.32.0",
        "non-default args:",
        "Resolved architecture: Qwen2ForCausalLM",
        "Initializing a V1 LLM engine",
        "Starting to load model",
        "Loading safetensors checkpoint shards: 100% Completed",
        "Loading weights took",
        "torch.compile takes",
        "Graph capturing finished",
        "KV cache size: 451,200 tokens",
        "init engine (profile, create kv cache, warmup model) took",
        "Starting vLLM server on http://127.0.0.1",
        "Started server process",
        "Application startup complete.",
    ]
    positions = [text.find(phase) for phase in phases]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_log_lines_are_formed_as_recorded(box: Box):
    def forms(text: str) -> set[str]:
        pattern = r"^\((\w+?)(?:_TP\d)? pid=\d+\) (INFO|WARNING) \d\d-\d\d \d\d:\d\d:\d\d \[[\w.]+:\d+\] "
        return {match[1] for match in re.finditer(pattern, text, re.MULTILINE)}

    recorded = forms(fixture_text("live_vllm_0.32/serve/tp2.stdout"))
    with box.serve("-tp", "2") as served:
        assert forms(served.log.read_text()) == recorded - {"VllmWorker"}


def test_the_first_line_comes_at_once(box: Box):
    took: list[float] = []
    for _ in range(3):
        started = time.monotonic()
        with box.serve(wait=False) as served:
            wait_until(lambda log=served.log: log.stat().st_size > 0, 5, "a first line")
            took.append(time.monotonic() - started)
    assert min(took) < 0.3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_obedient_server_is_gone_with_all_its_processes(box: Box, number: int):
    with box.serve("-tp", "2") as served:
        assert served.stop(number) == 0
        assert [title for title in box.titles() if title.startswith("VLLM::")] == []


def test_a_stop_while_loading_leaves_nothing(box: Box):
    with box.serve("-tp", "2", wait=False, VAWS_SIM_FAULT="never_ready") as served:
        wait_until(lambda: len(box.pids("VLLM::Worker_TP1")) == 1, 5, "the workers started")
        served.stop(signal.SIGTERM)
        assert [title for title in box.titles() if title.startswith("VLLM::")] == []


def failed_start(box: Box, *flags: str, **extra: str) -> tuple[int, str]:
    with box.serve(*flags, wait=False, **extra) as served:
        return served.process.wait(10), served.log.read_text()


@pytest.mark.parametrize(
    ("flags", "status", "words"),
    [
        (["--no-such-flag"], 2, "vllm: error: unrecognized arguments: --no-such-flag"),
        (["-tp", "3"], 1, "Total number of attention heads (32) must be divisible by tensor parallel size (3)."),
        (["-tp", "16"], 1, "local_world_size (16) must be less than or equal to the number of visible devices (8)"),
        (["--max-model-len", "999999"], 1, "User-specified max_model_len (999999) is greater than the derived"),
    ],
)
def test_bad_flags_end_with_the_real_words(box: Box, flags: list[str], status: int, words: str):
    found, log = failed_start(box, *flags)
    assert (found, words in log) == (status, True), log


@pytest.mark.parametrize("flags", ["--gpu_memory_utilization=0.9", "-cc.level=3", "--compilation-config.mode 3", "-O3"])
def test_real_flags_that_do_nothing_here_are_accepted(box: Box, flags: str):
    found, log = failed_start(box, *flags.split(), "-tp", "3")
    assert (found, "must be divisible" in log) == (1, True), log


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("/no/such/model", "Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/no/such/model'"),
        ("no-such-model", "no-such-model is not a local folder and is not a valid model identifier"),
        (".", "does not appear to have a file named config.json"),
    ],
)
def test_a_missing_model_ends_with_the_real_words(box: Box, model: str, words: str):
    answer = box.run("vllm", "serve", model, "--host", "127.0.0.1", "--port", "0")
    assert (answer.returncode, words in answer.stderr) == (1, True), answer.stderr


def test_a_taken_port_ends_with_errno_98(box: Box):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = str(sock.getsockname()[1])
        answer = box.run("vllm", "serve", box.facts["model"], "--host", "127.0.0.1", "--port", port)
    assert answer.returncode == 1
    assert "OSError: [Errno 98] Address already in use" in answer.stderr


def test_a_device_that_somebody_holds_refuses_a_second_server(box: Box):
    with box.serve():
        status, log = failed_start(box)
        assert status == 1
        assert "is less than desired GPU memory utilization" in log
        assert "Engine core initialization failed. See root cause above." in log
        assert failed_start(box, ASCEND_RT_VISIBLE_DEVICES="99")[0] == 1
        with box.serve(ASCEND_RT_VISIBLE_DEVICES="1"):
            assert len(box.pids("VLLM::Worker_TP0")) == 2


def test_fault_dying_while_loading_shows_the_cause_first(box: Box):
    status, log = failed_start(box, "-tp", "2", VAWS_SIM_FAULT="die_loading")
    assert status == 1
    assert 0 < log.index("NPU out of memory. Tried to allocate") < log.index("Engine core initialization failed")
    assert box.titles() == []


def test_fault_never_ready_keeps_loading(box: Box):
    with box.serve(wait=False, VAWS_SIM_FAULT="never_ready") as served:
        wait_until(lambda: "25% Completed" in served.log.read_text(), 5, "loading began")
        time.sleep(0.6)
        assert served.process.poll() is None
        assert not served.healthy()


def test_fault_hanging_on_stop_ignores_signals_and_ends_the_workers(box: Box):
    with box.serve(VAWS_SIM_FAULT="hang_on_stop") as served:
        for number in (signal.SIGINT, signal.SIGTERM):
            served.process.send_signal(number)
            with pytest.raises(subprocess.TimeoutExpired):
                served.process.wait(0.4)
        assert [title for title in box.titles() if title.startswith("VLLM::")] == []
        assert "Waiting for connections to close." in served.log.read_text()


def test_fault_leaving_orphans_keeps_the_devices_held(box: Box):
    with box.serve("-tp", "2", VAWS_SIM_FAULT="leave_orphans") as served:
        (engine,) = box.pids("VLLM::EngineCore")
        served.stop(signal.SIGTERM)
        time.sleep(0.3)
        assert len([title for title in box.titles() if title.startswith("VLLM::")]) == 3
        assert "VLLMWorker_TP" in box.run("npu-smi", "info").stdout
        os.kill(engine, signal.SIGTERM)
        wait_until(lambda: box.titles() == [], 5, "engine and workers obey a signal of their own")


def test_faults_can_be_a_file_and_unknown_names_are_refused(box: Box):
    faults = box.root / "faults"
    faults.write_text("die_loading\n")
    try:
        assert failed_start(box)[0] == 1
    finally:
        faults.unlink()
    status, log = failed_start(box, VAWS_SIM_FAULT="die_lodaing")
    assert (status, "unknown fault die_lodaing" in log) == (1, True)


def test_a_tree_that_is_broken_does_not_start(box: Box, tmp_path: Path):
    (tmp_path / "vllm_ascend").mkdir()
    (tmp_path / "vllm_ascend" / "simulation.json").write_text("{broken")
    status, log = failed_start(box, VLLM_ASCEND_SIM_TREE=str(tmp_path))
    assert (status, "simulation.json" in log) == (1, True)
    (tmp_path / "vllm_ascend" / "simulation.json").write_text('{"faults": ["die_loading"]}')
    assert "NPU out of memory" in failed_start(box, VLLM_ASCEND_SIM_TREE=str(tmp_path))[1]


def test_a_killed_engine_makes_the_server_unhealthy_and_then_ends_it(box: Box):
    with box.serve() as served:
        os.kill(box.pids("VLLM::EngineCore")[0], signal.SIGKILL)
        wait_until(lambda: http(served.port, "/health")[0] == 503, 2, "unhealthy")
        assert served.process.wait(8) == 1


def test_a_port_lost_between_binding_and_listening_ends_the_server(box: Box):
    settings = read_settings(box.facts["root"])
    write_settings(replace(settings, load_seconds=1.5))
    try:
        with bind("127.0.0.1", 0) as sock:
            port = str(sock.getsockname()[1])
            with box.serve("--port", port, wait=False) as served:
                wait_until(lambda: "Starting to load model" in served.log.read_text(), 5, "loading began")
                sock.listen()
                assert served.process.wait(5) == 1
                words = f"[Errno 98] error while attempting to bind on address ('127.0.0.1', {port})"
                assert words in served.log.read_text()
    finally:
        write_settings(settings)


def test_secrets_on_the_command_line_are_not_logged(box: Box):
    status, log = failed_start(box, "--api-key", "sk-very-secret", "-tp", "3")
    assert (status, "sk-very-secret" in log) == (1, False)

"""The simulated `vllm bench serve`: load, numbers, files, console and exit status."""

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sim_box import Box, Served, fixture_text, free_port

import vaws_mcp.sim as sim
from vaws_mcp.sim.latency import LatencyModel, TreeModel
from vaws_mcp.sim.settings import read_settings

TPOT_MS = 20.0


@pytest.fixture(scope="module")
def served(box: Box) -> Iterator[Served]:
    with box.serve("--max-model-len", "2048") as running:
        yield running


def recorded(name: str) -> Any:
    return json.loads(fixture_text(f"live_vllm_0.32/bench/results/{name}.json"))


def test_tpot_is_the_models_within_two_percent_at_concurrency_eight(box: Box, served: Served):
    load = ["--num-prompts", "16", "--max-concurrency", "8", "--random-output-len", "48"]
    answer = box.bench(served.port, *load)
    assert answer.returncode == 0, answer.stderr
    result = box.result()
    assert result["completed"] == 16
    assert result["total_output_tokens"] == 16 * 48
    assert result["total_input_tokens"] == 16 * 32
    assert result["mean_tpot_ms"] == pytest.approx(TPOT_MS, rel=0.02)
    assert result["mean_ttft_ms"] < 60


def test_a_commit_that_slows_decoding_is_seen_in_the_numbers(box: Box):
    tpot: list[float] = []
    repository = box.facts["vllm_ascend_repo"]
    try:
        for ref in ("main", "slow-decode"):
            assert box.run("git", "-C", repository, "checkout", "--quiet", ref).returncode == 0
            with box.serve(ASCEND_RT_VISIBLE_DEVICES="4") as server:
                assert box.bench(server.port).returncode == 0
                tpot.append(box.result()["mean_tpot_ms"])
    finally:
        box.run("git", "-C", repository, "checkout", "--quiet", "main")
    assert tpot[1] / tpot[0] == pytest.approx(1.1, rel=0.03)


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("serve_completions_random", []),
        ("serve_chat_random", ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]),
    ],
)
def test_the_result_has_the_recorded_keys_in_order(box: Box, served: Served, name: str, flags: list[str]):
    assert box.bench(served.port, *flags).returncode == 0
    ours = box.result()
    assert list(ours) == list(recorded(name))
    assert ours["endpoint_type"] == ours["backend"] == recorded(name)["backend"]
    assert (ours["request_rate"], ours["burstiness"], ours["max_concurrency"]) == ("inf", 1.0, 4)


def test_metadata_percentiles_and_end_to_end_latency_have_the_recorded_keys(box: Box, served: Served):
    flags = ["--metadata", "tag=x", "round=1", "--percentile-metrics", "ttft,tpot,itl,e2el"]
    assert box.bench(served.port, *flags, "--metric-percentiles", "50,90,95,99").returncode == 0
    assert list(box.result()) == list(recorded("serve_custom"))
    assert (box.result()["tag"], box.result()["round"]) == ("x", "1")


def test_details_have_the_recorded_keys(box: Box, served: Served):
    assert box.bench(served.port, "--save-detailed", "--goodput", "tpot:50", "--request-rate", "40").returncode == 0
    ours = box.result()
    assert list(ours) == list(recorded("serve_custom_chat_detailed"))
    assert ours["request_goodput"] == ours["request_throughput"]
    assert [len(itls) for itls in ours["itls"]] == [7] * 8
    assert ours["output_lens"] == [8] * 8
    assert ours["request_rate"] == 40.0


def test_the_console_table_has_the_recorded_lines(box: Box, served: Served):
    def table(text: str) -> list[str]:
        lines = text[text.index("============ Serving") :].splitlines()
        return [re.sub(r"\d+(\.\d+)? *$", "N", line) for line in lines if line]

    answer = box.bench(served.port)
    assert table(answer.stdout) == table(fixture_text("live_vllm_0.32/bench/serve_completions_random.stdout"))
    assert "Traffic request rate: inf\nBurstiness factor: 1.0 (Poisson process)\n" in answer.stdout
    assert "100%|██████████| 8/8 [" in answer.stderr
    assert "/8 [" not in box.bench(served.port, "--disable-tqdm").stderr


def test_speculative_decoding_is_reported_with_the_recorded_keys_and_units(box: Box):
    spec = '{"method": "ngram", "num_speculative_tokens": 2}'
    with box.serve("--speculative-config", spec, ASCEND_RT_VISIBLE_DEVICES="4") as server:
        answer = box.bench(server.port)
        result = box.result()
    assert list(result) == list(recorded("serve_spec_ngram"))
    assert 20 < result["spec_decode_acceptance_rate"] <= 100
    rates = result["spec_decode_per_position_acceptance_rates"]
    assert 1 >= rates[0] >= rates[1] > 0
    accepted, drafts = result["spec_decode_accepted_tokens"], result["spec_decode_num_drafts"]
    assert result["spec_decode_acceptance_length"] == 1 + accepted / drafts
    assert result["spec_decode_draft_tokens"] == 2 * drafts
    assert result["mean_tpot_ms"] < TPOT_MS
    tail = fixture_text("vllm_bench/ok_0.33.0.console.txt").splitlines()[-12:-5]
    labels = [line.split(":")[0] for line in tail]
    assert [line.split(":")[0] for line in answer.stdout.splitlines() if line.split(":")[0] in labels] == labels


def test_noise_of_runs_and_launches_is_the_declared_one(tmp_path: Path):
    noisy = sim.SimOptions(seed=3, noise_run=0.1, noise_launch=0.1, drift=0.2, load_seconds=0.1)
    box = Box(sim.start_detached(noisy, tmp_path))
    measured: list[float] = []
    try:
        settings = read_settings(box.facts["root"])
        for _ in range(2):
            with box.serve() as server:
                for _ in range(2):
                    assert box.bench(server.port).returncode == 0
                    measured.append(box.result()["mean_tpot_ms"])
    finally:
        sim.stop(tmp_path)
    expected = [LatencyModel(settings, TreeModel(), n).tpot(run) * 1000 for n in (0, 1) for run in (1, 2)]
    # On a busy machine single values are off by some percent, but far less than the declared noise moves them.
    missed = sum(abs(found - wanted) for found, wanted in zip(measured, expected, strict=True))
    assert missed < sum(abs(20 - wanted) for wanted in expected)
    assert statistics.stdev(expected) > 1


def test_speculative_keys_are_absent_without_drafts(box: Box, served: Served):
    box.bench(served.port)
    assert not [key for key in box.result() if key.startswith("spec_")]


def test_the_load_is_the_same_for_a_seed(box: Box, served: Served):
    texts: list[Any] = []
    for seed in ("1", "1", "2"):
        box.bench(served.port, "--save-detailed", "--seed", seed)
        texts.append(box.result()["generated_texts"])
    assert texts[0] == texts[1] != texts[2]


def test_a_custom_file_is_sent_exactly_and_filled_up(box: Box, served: Served):
    path = box.root / "root" / "custom.jsonl"
    path.write_text("".join(json.dumps({"prompt": "a b c d", "output_tokens": 3}) + "\n" for _ in range(3)))
    flags = ["--dataset-name", "custom", "--dataset-path", str(path), "--ignore-eos"]
    assert box.bench(served.port, *flags, "--custom-output-len", "5").returncode == 0
    assert (box.result()["total_input_tokens"], box.result()["total_output_tokens"]) == (32, 40)
    assert box.bench(served.port, *flags, "--custom-output-len", "-1").returncode == 0
    assert box.result()["total_output_tokens"] == 24


def test_results_can_be_appended_line_by_line(box: Box, served: Served):
    path = box.root / "root" / "appended.json"
    for _ in range(2):
        box.bench(served.port, "--append-result", "--result-filename", path.name)
    assert [json.loads(line)["completed"] for line in path.read_text().split("\n")] == [8, 8]


def test_warmups_are_not_counted(box: Box, served: Served):
    answer = box.bench(served.port, "--num-warmups", "2")
    assert "Warming up with 2 requests..." in answer.stdout
    assert box.result()["completed"] == 8


@pytest.mark.parametrize("flags", [[], ["--ready-check-timeout-sec", "0"]])
def test_a_closed_port_exits_zero_with_nothing_completed(box: Box, flags: list[str]):
    answer = box.bench(free_port(), *flags)
    assert answer.returncode == 0
    result, sample = box.result(), json.loads(fixture_text("live_vllm_0.32/bench/failures/results/down.json"))
    assert list(result) == list(sample)
    assert (result["completed"], result["failed"]) == (0, 8)
    unlike = (
        "date",
        "max_concurrency",
        "duration",
        "queue_times",
        "latencies",
        "num_prompts",
        "failed",
        "tokenizer_id",
    )
    same = [key for key in result if key not in (*unlike, "model_id")]
    assert {key: result[key] for key in same} == {key: sample[key] for key in same}
    assert "Cannot connect to host 127.0.0.1" in answer.stdout


def test_a_wrong_model_exits_zero_with_nothing_completed(box: Box, served: Served):
    answer = box.bench(served.port, "--model", "nope")
    assert (answer.returncode, box.result()["completed"]) == (0, 0)
    assert "Error 0: Not Found" in answer.stdout


def test_a_ready_check_that_fails_exits_one_without_a_result(box: Box):
    answer = box.bench(free_port(), "--ready-check-timeout-sec", "1")
    assert answer.returncode == 1
    assert "Initial test run failed - Please make sure benchmark arguments are correctly specified." in answer.stderr
    assert not (box.root / "root" / "r.json").exists()


@pytest.mark.parametrize(
    ("flags", "status", "words"),
    [
        (["--no-such-flag", "3"], 2, "vllm: error: unrecognized arguments: --no-such-flag 3"),
        (["--endpoint", "/v1/nope"], 1, "OpenAI Completions API URL must end with one of: {'completions'}."),
        (["--max-concurrency", "0"], 1, "--max-concurrency must be greater than 0"),
        (["--dataset-name", "custom", "--dataset-path", "/no/file"], 1, "No such file or directory: '/no/file'"),
        (["--tokenizer", "nope"], 1, "nope is not a local folder and is not a valid model identifier"),
        (["--metadata", "novalue"], 1, "Invalid metadata format"),
    ],
)
def test_bad_arguments_end_with_the_real_words(box: Box, served: Served, flags: list[str], status: int, words: str):
    answer = box.bench(served.port, *flags)
    assert (answer.returncode, words in answer.stderr) == (status, True), answer.stderr


def test_fault_half_of_the_requests_fail(box: Box):
    with box.serve(ASCEND_RT_VISIBLE_DEVICES="4", VAWS_SIM_FAULT="half_fail") as server:
        answer = box.bench(server.port)
    assert answer.returncode == 0
    assert (box.result()["completed"], box.result()["failed"]) == (4, 4)
    assert "Error 3: Internal Server Error" in answer.stdout


def test_fault_exiting_zero_with_nothing_completed(box: Box, served: Served):
    answer = box.bench(served.port, VAWS_SIM_FAULT="bench_zero")
    assert answer.returncode == 0
    result = box.result()
    assert (result["completed"], result["failed"], result["output_throughput"]) == (0, 8, 0.0)


def test_the_version_and_other_subcommands(box: Box):
    assert box.run("vllm", "--version").stdout == "0.32.0\n"
    answer = box.run("vllm", "bench", "sweep")
    assert (answer.returncode, "invalid choice" in answer.stderr) == (2, True)

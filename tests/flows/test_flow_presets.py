"""Presets and nightly configurations: what a person puts in a file reaches the command, and arguments win."""

import json
from pathlib import Path

import pytest
from flow_world import SMALL_BENCH, Cli, Json, Task, World

NIGHTLY = """
test_cases:
  - name: small
    model: demo/other
    envs: {FROM_NIGHTLY: "1", SERVER_PORT: "DEFAULT_PORT"}
    server_cmd: ["--port", "$SERVER_PORT", "--max_num_seqs", "7", "--tensor-parallel-size", "1"]
    benchmarks:
      acc: {case_type: performance, dataset_path: demo/GSM8K-in16-bs4, num_prompts: 3, max_out_len: 5, batch_size: 2,
            request_rate: 0, baseline: 100, threshold: 0.9}
"""


@pytest.fixture
def local_preset(world: World) -> str:
    """A preset in the state directory, for this story only."""
    folder = world.state_dir / "presets"
    folder.mkdir(exist_ok=True)
    preset = {
        "served_model_name": "from-preset",
        "env": {"FROM_PRESET": "1", "BOTH": "preset"},
        "bench_args": list(SMALL_BENCH),
        "runs": 2,
        "warmup_runs": 1,
        "fixed_request_dataset": {"input_len": 16, "output_len": 4},
    }
    (folder / "story.json").write_text(json.dumps(preset))
    return "story"


def bench(cli: Cli, task: Task, world: World, *words: str) -> Json:
    spoken = cli("bench-run", "--context-file", task.context_file, "--model", world.facts["model"], *words)
    assert spoken.code == 0, spoken.answer
    return spoken.answer


def test_a_benchmark_takes_what_is_not_given_from_a_preset(
    cli: Cli, task: Task, world: World, local_preset: str
) -> None:
    answer = bench(
        cli, task, world, "--preset", local_preset, "--extra-env", "BOTH=mine", "--served-model-name", "mine"
    )
    assert (answer["preset"], answer["runs"], answer["warmup_runs"]) == ("story", 2, 1)
    assert answer["config"]["served_model_name"] == "mine"
    assert answer["config"]["env"] == {"FROM_PRESET": "1", "BOTH": "mine"}
    origin = answer["config_origin"]
    assert (origin["served_model_name"], origin["bench_args"], origin["tp"]) == ("explicit", "preset:story", "default")
    assert (origin["env.BOTH"], origin["env.FROM_PRESET"]) == ("explicit", "preset:story")
    assert any("fixed_request_dataset" in warning for warning in answer["warnings"])


def test_a_comparison_takes_them_too(cli: Cli, task: Task, world: World, local_preset: str) -> None:
    words = ["bench-compare", "--context-file", task.context_file, "--model", world.facts["model"]]
    spoken = cli(*words, "--state", "a=main", "--state", "b=slow-decode", "--preset", local_preset, "--runs", "3")
    assert spoken.code == 0, spoken.answer
    assert spoken.answer["preset"] == "story"
    assert spoken.answer["config_origin"]["runs"] == "explicit"
    assert spoken.answer["config_origin"]["warmup_runs"] == "preset:story"


def test_a_benchmark_refers_to_a_nightly_configuration(cli: Cli, task: Task, world: World, tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(NIGHTLY)
    words = ("--refer-nightly", "demo", "--nightly-root", str(tmp_path), "--served-model-name", "mine")
    answer = bench(cli, task, world, *words)
    assert "--max-num-seqs 7" in " ".join(answer["launch"]["command"])
    assert answer["config"]["bench_args"][:6] == [
        *("--dataset-name", "random", "--random-input-len", "16", "--random-output-len", "5"),
    ]
    assert answer["config_origin"]["serve_args"] == "nightly:demo"
    nightly = answer["nightly"]
    assert (nightly["name"], nightly["case"], nightly["block"]) == ("demo", "small", "acc")
    assert nightly["source"]["where"] == "local"
    assert {"acc.baseline", "acc.threshold", "acc.dataset_path"} <= {
        item["name"] for item in nightly["not_carried_over"]
    }
    assert nightly["derived"].startswith("random prompts of 16 tokens")
    assert any("demo/other" in warning for warning in answer["warnings"])


def test_a_service_takes_a_preset_and_reconnects_with_it(cli: Cli, task: Task, world: World, local_preset: str) -> None:
    words = ("serve-start", "--context-file", task.context_file, "--model", world.facts["model"])
    first = cli(*words, "--preset", local_preset, "--devices", "none")
    assert first.code == 0, first.answer
    assert first.answer["served_model_name"] == "from-preset"
    assert first.answer["config_origin"]["served_model_name"] == "preset:story"
    again = cli(*words, "--preset", local_preset, "--devices", "none")
    assert (again.code, again.answer["reconnected"]) == (0, True)
    assert again.answer["execution_id"] == first.answer["execution_id"]
    assert cli("serve-stop", "--context-file", task.context_file).code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--preset", "no-such-preset"), "preset_unknown"),
        (("--preset", "qwen3.5-27b", "--devices", "0"), "devices_mismatch"),
        (("--preset", "qwen3.5-27b", "--warmup-runs", "1"), "argument_invalid"),
        (("--refer-nightly", "../x"), "nightly_name_malformed"),
        (("--nightly-root", "/tmp"), "argument_invalid"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_starts(
    cli: Cli, task: Task, world: World, words: tuple[str, ...], code: str
) -> None:
    spoken = cli("bench-run", "--context-file", task.context_file, "--model", world.facts["model"], *words)
    assert (spoken.code, spoken.answer["error"]["code"]) == (2, code)
    assert task.runs == []


def test_the_endpoint_without_configurations_is_named(cli: Cli, task: Task) -> None:
    spoken = cli("nightly-show", "demo", "--context-file", task.context_file)
    assert spoken.answer["error"]["code"] == "nightly_absent"


def test_presets_are_listed_and_shown(cli: Cli, local_preset: str) -> None:
    rows = {row["name"]: row for row in cli("preset-list").answer["presets"]}
    assert {"dsv4-flash", "qwen3.5-27b", local_preset} <= rows.keys()
    assert rows[local_preset]["origin"] == "local"
    shown = cli("preset-show", "dsv4-flash").answer["preset"]
    assert (shown["tp"], shown["port"], shown["vllm_ref"]) == (8, 30001, "967c5c3b")
    refused = cli("preset-show", "dsv4-flush")
    assert refused.code == 2
    assert "dsv4-flash" in refused.answer["error"]["hint"]

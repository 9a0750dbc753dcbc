"""Presets of benchmarks: exact values, strict types, and where a name is looked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vaws_mcp.core.failures import Refused
from vaws_mcp.presets.bench import BenchPreset, all_presets, find_preset

KEYS = {
    *("tp", "dp", "port", "devices", "served_model_name", "health_timeout", "env", "bench_env", "serve_args"),
    *("bench_args", "vllm_ref", "runs", "warmup_runs", "fixed_request_dataset", "bench_request_counts"),
}


def load(folder: Path, value: Any) -> BenchPreset:
    path = folder / "mine.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return find_preset(str(path), folder / "nowhere").load()


def shipped(name: str, tmp_path: Path) -> dict[str, Any]:
    found = find_preset(name, tmp_path)
    assert found.origin == "shipped"
    return found.load().given()


def test_the_keys_are_exactly_these() -> None:
    assert set(BenchPreset.model_fields) == KEYS


def test_dsv4_flash(tmp_path: Path) -> None:
    given = shipped("dsv4-flash", tmp_path)
    flag, value = given.pop("serve_args")
    assert flag == "--model-loader-extra-config"
    assert json.loads(value) == {"enable_multithread_load": True}
    assert given == {
        "tp": 8,
        "port": 30001,
        "served_model_name": "dsv4-w4a8",
        "bench_args": ["--backend", "openai", "--endpoint", "/v1/completions"],
        "vllm_ref": "967c5c3b",
        "runs": 6,
        "warmup_runs": 1,
        "fixed_request_dataset": {"input_len": 512, "output_len": 512},
    }


def test_qwen(tmp_path: Path) -> None:
    given = shipped("qwen3.5-27b", tmp_path)
    assert {key: given[key] for key in ("tp", "dp", "port", "served_model_name")} == {
        "tp": 2,
        "dp": 1,
        "port": 8000,
        "served_model_name": "qwen3.5",
    }
    assert given["env"] == {
        "VLLM_USE_MODELSCOPE": "true",
        "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
        "HCCL_BUFFSIZE": "512",
        "OMP_PROC_BIND": "false",
        "OMP_NUM_THREADS": "1",
        "TASK_QUEUE_ENABLE": "1",
    }
    assert given["serve_args"] == [
        *("--max-model-len", "133000", "--max-num-seqs", "32", "--max-num-batched-tokens", "8096"),
        *("--gpu-memory-utilization", "0.90", "--quantization", "ascend", "--seed", "1024", "--trust-remote-code"),
        *("--no-enable-prefix-caching", "--compilation-config", '{"cudagraph_mode":"FULL_DECODE_ONLY"}'),
        *("--additional-config", '{"enable_cpu_binding":true}', "--async-scheduling"),
    ]
    assert set(given) == {"tp", "dp", "port", "served_model_name", "env", "serve_args"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "/m"}, "never names the model"),
        ({"served_model": "x"}, "did you mean 'served_model_name'"),
        ({"schema": "x"}, "unknown keys: 'schema'"),
        ({"tp": "8"}, "tp:"),
        ({"tp": True}, "tp:"),
        ({"tp": 8.0}, "tp:"),
        ({"tp": 0}, "tp:"),
        ({"tp": None}, "null says nothing"),
        ({"port": 70000}, "port:"),
        ({"env": {"A": 1}}, "env.A"),
        ({"env": {"A B": "x"}}, "env"),
        ({"env": ["A=x"]}, "env:"),
        ({"serve_args": "--a b"}, "serve_args:"),
        ({"serve_args": ["--a", 1]}, "serve_args.1"),
        ({"bench_args": ["a\x00b"]}, "bench_args.0"),
        ({"served_model_name": "-x"}, "served_model_name:"),
        ({"vllm_ref": "--upload-pack=x"}, "vllm_ref:"),
        ({"devices": [-1]}, "devices"),
        ({"runs": 2, "warmup_runs": 2}, "must be fewer"),
        ({"fixed_request_dataset": {"input_len": 1}}, "fixed_request_dataset.output_len"),
        ({"fixed_request_dataset": {"input_len": 1, "output_len": 1, "x": 1}}, "fixed_request_dataset.x"),
        ({"bench_request_counts": [1, 1]}, "twice"),
        ({"bench_request_counts": []}, "bench_request_counts:"),
        ({"health_timeout": 0}, "health_timeout:"),
        ("[]", "no JSON object"),
        ('{"tp": 1, "tp": 2}', "twice"),
        ("{", "not JSON"),
        ('{"health_timeout": Infinity}', "no JSON number"),
    ],
)
def test_what_is_wrong_is_named(change: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        load(tmp_path, change)
    assert caught.value.code == "preset_invalid"
    assert said in caught.value.message
    assert "mine.json" in caught.value.message


def test_a_local_preset_takes_the_place_of_a_shipped_one(tmp_path: Path) -> None:
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "mine.json").write_text('{"tp": 3}')
    (folder / "dsv4-flash.json").write_text('{"tp": 4}')
    assert find_preset("mine", tmp_path).load().tp == 3
    found = find_preset("dsv4-flash", tmp_path)
    assert (found.origin, found.hides_shipped, found.load().tp) == ("local", True, 4)
    assert [one.name for one in all_presets(tmp_path)] == ["dsv4-flash", "mine", "qwen3.5-27b"]


@pytest.mark.parametrize("given", ["dsv4", "dsv4_flash", "policies", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(given: str, tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        find_preset(given, tmp_path)
    assert caught.value.code == "preset_unknown"
    assert "dsv4-flash, qwen3.5-27b" in caught.value.message


@pytest.mark.parametrize("given", ["no/such.json", "/dev/null", "/", "a\0b.json"])
def test_what_is_no_file_is_refused(given: str, tmp_path: Path) -> None:
    with pytest.raises(Refused):
        find_preset(given, tmp_path).load()

"""Explicit argument before preset before nightly case before default, for each field, and its origin in the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vaws_mcp.bench.models import BenchRequest, CasesRequest
from vaws_mcp.bench.nightly_models import Block, Case, NightlyChoice, Source
from vaws_mcp.bench.settings import DEFAULT_BENCH_ARGS, BenchSettings, FixedDataset
from vaws_mcp.comparison.models import BenchCompareRequest
from vaws_mcp.coordinator.wanted import DeviceRequest
from vaws_mcp.core.failures import Refused


class Cases(BenchRequest, CasesRequest):
    """A request with everything that comparisons take."""


def settings(
    folder: Path, preset: dict[str, Any] | None = None, nightly: NightlyChoice | None = None, **fields: Any
) -> BenchSettings:
    given: dict[str, Any] = {"model": "/models/m", **fields}
    if preset is not None:
        (folder / "presets").mkdir(exist_ok=True)
        (folder / "presets" / "p.json").write_text(json.dumps(preset))
        given["preset"] = "p"
    if nightly is not None:
        given["refer_nightly"] = nightly.name
    return BenchSettings.of(Cases.model_validate(given), folder, nightly)


def nightly(**fields: Any) -> NightlyChoice:
    block = Block(name="perf", case_type="performance", bench_args=["--num-prompts", "9"], derived="random prompts")
    case = Case.model_validate({"name": "c", "model": "demo/M", "blocks": [block], **fields})
    workloads = case.workloads
    source = Source("local", "/r", "/r/n.yaml", "abc", modified=False)
    return NightlyChoice("n", case, workloads[0] if workloads else None, source)


def test_without_a_preset_everything_is_explicit_or_default(tmp_path: Path) -> None:
    found = settings(tmp_path, tp=2)
    assert found.serve.tp == 2
    assert found.bench_args == DEFAULT_BENCH_ARGS
    assert found.origin["tp"] == "explicit"
    assert {found.origin[name] for name in ("dp", "port", "runs", "serve_args", "bench_args", "devices")} == {"default"}


def test_each_field_takes_the_first_source_that_says_something(tmp_path: Path) -> None:
    preset = {"tp": 4, "dp": 2, "runs": 6, "warmup_runs": 1, "serve_args": ["--preset"], "served_model_name": "p"}
    case = nightly(tp=8, dp=8, port=8123, served_model_name="n", serve_args=["--nightly"])
    found = settings(tmp_path, preset, case, tp=1)
    assert (found.serve.tp, found.serve.dp, found.serve.port) == (1, 2, 8123)
    assert found.serve.served_model_name == "p"
    assert found.serve.serve_args == ("--preset",)
    assert found.bench_args == ("--num-prompts", "9")
    assert (found.runs, found.warmup_runs) == (6, 1)
    names = ("tp", "dp", "port", "served_model_name", "serve_args", "bench_args", "runs", "health_timeout")
    assert [found.origin[name] for name in names] == [
        *("explicit", "preset:p", "nightly:n", "preset:p", "preset:p", "nightly:n", "preset:p", "default"),
    ]
    assert found.preset == "p"
    assert found.nightly is not None
    assert found.nightly["derived"] == "random prompts"
    assert found.nightly["source"]["commit"] == "abc"


def test_an_argument_that_equals_the_default_is_explicit_all_the_same(tmp_path: Path) -> None:
    found = settings(tmp_path, {"runs": 6}, runs=1)
    assert (found.runs, found.origin["runs"]) == (1, "explicit")


def test_arguments_are_replaced_whole_and_environments_merged(tmp_path: Path) -> None:
    preset = {"serve_args": ["--a", "1", "--b"], "env": {"A": "p", "B": "p"}, "bench_env": {"X": "p"}}
    case = nightly(serve_args=["--c"], env={"B": "n", "C": "n"})
    found = settings(tmp_path, preset, case, serve_args="--a 2", extra_env=["A=e"], bench_env=["Y=e"])
    assert found.serve.serve_args == ("--a", "2")
    assert found.serve.env == {"A": "e", "B": "p", "C": "n"}
    assert found.bench_env == {"X": "p", "Y": "e"}
    origins = {name: found.origin[name] for name in ("env.A", "env.B", "env.C", "bench_env.X", "bench_env.Y")}
    assert list(origins.values()) == ["explicit", "preset:p", "nightly:n", "preset:p", "explicit"]


def test_empty_serve_args_drop_those_of_the_preset(tmp_path: Path) -> None:
    found = settings(tmp_path, {"serve_args": ["--a"], "bench_args": ["--b"]}, serve_args="", bench_args="")
    assert found.serve.serve_args == ()
    assert found.bench_args == DEFAULT_BENCH_ARGS
    assert (found.origin["serve_args"], found.origin["bench_args"]) == ("explicit", "default")


def test_defaults_of_a_comparison_are_its_own(tmp_path: Path) -> None:
    request = BenchCompareRequest.model_validate({"model": "m", "state": ["a=x", "b=y"]})
    assert (BenchSettings.of(request, tmp_path).runs, BenchSettings.of(request, tmp_path).warmup_runs) == (3, 1)


@pytest.mark.parametrize(
    ("preset", "fields", "code"),
    [
        ({"runs": 2}, {"warmup_runs": 2}, "argument_invalid"),
        ({"warmup_runs": 1}, {}, "argument_invalid"),
        ({"serve_args": ["--port", "1"]}, {}, "serve_args_conflict"),
        ({"serve_args": ["--tensor_parallel_size=2"]}, {}, "serve_args_conflict"),
        ({"bench_args": ["--save-result"]}, {}, "bench_args_conflict"),
        ({"bench_args": ["--result_dir", "/x"]}, {}, "bench_args_conflict"),
        ({"env": {"VAWS_STATE_DIR": "/x"}}, {}, "reserved_env"),
        ({"tp": 2}, {"devices": "0"}, "devices_mismatch"),
        ({"tp": 2, "dp": 2}, {"npu_count": 2}, "devices_mismatch"),
        ({}, {"devices": "0,1", "npu_count": 2, "tp": 2}, "devices_conflict"),
        ({}, {"devices": "none", "npu_count": 1}, "devices_conflict"),
        ({}, {"devices": "x"}, "devices_malformed"),
        ({}, {"nightly_root": "/x"}, "argument_invalid"),
        ({}, {"bench_request_counts": "1,1"}, "argument_invalid"),
    ],
)
def test_contradictions_are_refused(preset: dict[str, Any], fields: dict[str, Any], code: str, tmp_path: Path) -> None:
    with pytest.raises(Refused) as caught:
        settings(tmp_path, preset, **fields)
    assert caught.value.code == code


def test_a_refusal_names_the_file_that_the_arguments_came_from(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="preset:p"):
        settings(tmp_path, {"serve_args": ["--port", "1"]})


def test_parallel_sizes_of_a_nightly_case_are_waited_for(tmp_path: Path) -> None:
    before = BenchSettings.of(
        BenchRequest.model_validate({"model": "m", "devices": "0,1", "refer_nightly": "n"}), tmp_path
    )
    assert before.devices == DeviceRequest(ids=("0", "1"))
    assert settings(tmp_path, nightly=nightly(tp=2), devices="0,1").serve.tp == 2
    with pytest.raises(Refused):
        settings(tmp_path, nightly=nightly(tp=4), devices="0,1")


@pytest.mark.parametrize(
    ("preset", "fields", "ids", "count"),
    [
        ({"devices": [4, 5]}, {"tp": 2}, ("4", "5"), None),
        ({"devices": "4, 5"}, {"tp": 2}, ("4", "5"), None),
        ({"devices": [4, 5]}, {"tp": 1, "devices": "7"}, ("7",), None),
        ({"devices": [4, 5]}, {"tp": 3, "npu_count": 3}, (), 3),
        ({"devices": [4, 5]}, {"extra_env": ["ASCEND_RT_VISIBLE_DEVICES=6"]}, ("6",), None),
        ({"env": {"ASCEND_RT_VISIBLE_DEVICES": "6"}}, {"devices": "7"}, ("7",), None),
    ],
)
def test_the_first_source_that_asks_for_devices_decides(
    preset: dict[str, Any], fields: dict[str, Any], ids: tuple[str, ...], count: int | None, tmp_path: Path
) -> None:
    assert settings(tmp_path, preset, **fields).devices == DeviceRequest(ids=ids, count=count)


def test_no_devices_is_a_wish_too(tmp_path: Path) -> None:
    found = settings(tmp_path, {"devices": "none"})
    assert found.devices is None
    assert found.no_devices
    assert found.as_config()["devices"] == "none"


def test_fixed_requests_of_a_preset_are_overridden_part_by_part(tmp_path: Path) -> None:
    preset = {"fixed_request_dataset": {"input_len": 512, "output_len": 256}}
    assert settings(tmp_path, preset).fixed_dataset == FixedDataset(512, 256)
    found = settings(tmp_path, preset, fixed_input_len=64)
    assert found.fixed_dataset == FixedDataset(64, 256)
    assert found.origin["fixed_request_dataset.input_len"] == "explicit"
    assert found.origin["fixed_request_dataset.output_len"] == "preset:p"
    assert settings(tmp_path, preset, fixed_request_dataset=False).fixed_dataset is None
    assert settings(tmp_path, {}).fixed_dataset is None
    assert settings(tmp_path, {}, fixed_request_dataset=True).fixed_dataset == FixedDataset(512, 512)
    assert settings(tmp_path, {}, fixed_dataset_path="/d").fixed_dataset == FixedDataset(512, 512, "/d")


def test_counts_and_the_state_of_vllm_come_from_either(tmp_path: Path) -> None:
    preset = {"bench_request_counts": [1, 2], "vllm_ref": "abc"}
    found = settings(tmp_path, preset)
    assert (found.request_counts, found.vllm_ref) == ((1, 2), "abc")
    found = settings(tmp_path, preset, bench_request_counts="4,8", vllm_ref="def")
    assert (found.request_counts, found.vllm_ref) == ((4, 8), "def")


def test_secrets_of_a_preset_are_masked_in_the_result(tmp_path: Path) -> None:
    found = settings(tmp_path, {"env": {"HF_TOKEN": "hf_secret"}})
    assert found.serve.env["HF_TOKEN"] == "hf_secret"
    assert "hf_secret" not in json.dumps(found.as_config())

"""Every shape of a nightly configuration is read as upstream means it, or refused with the reason."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nightly_files import ANCHORS, BASIC, DEPLOYMENT, DOUBLED, EPD, HOSTILE, MISNESTED, RUNNERS, TEMPLATES

from vaws_mcp.bench.nightly_failures import require_comparable
from vaws_mcp.bench.nightly_models import Block, Case, File
from vaws_mcp.bench.parse_nightly import parse_nightly
from vaws_mcp.core.failures import Refused


def cases(text: str) -> list[Case]:
    return parse_nightly(text.encode(), "x").cases


def block_of(entry: str) -> tuple[Block, Case]:
    case = cases(f"test_cases: [{{name: a, benchmarks: {{p: {{case_type: performance, {entry}}}}}}}]")[0]
    return case.blocks[0], case


def test_a_plain_case_becomes_settings() -> None:
    (case,) = cases(BASIC)
    assert case.usable
    assert (case.tp, case.dp, case.port, case.served_model_name) == (2, None, None, None)
    assert case.serve_args == ["--quantization", "ascend", "--gpu-memory-utilization", "0.90"]
    assert case.env == {"HCCL_OP_EXPANSION_MODE": "AIV"}
    (block,) = case.workloads
    assert block.bench_args == [
        *("--dataset-name", "random", "--random-input-len", "3500", "--random-output-len", "1500"),
        *("--num-prompts", "400", "--max-concurrency", "100", "--request-rate", "11.2"),
        *("--ignore-eos", "--temperature", "0"),
    ]
    assert "instead of demo/GSM8K-in3500-bs400" in (block.derived or "")


def test_what_has_no_equivalent_is_listed() -> None:
    (case,) = cases(BASIC)
    assert {item.name for item in case.not_carried_over} == {"prompts", "api_keyword_args", "test_content"}
    accuracy, performance = case.blocks
    assert [item.why for item in accuracy.not_carried_over] == ["case_type is accuracy"]
    left = {item.name for item in performance.not_carried_over}
    assert left == {"perf.dataset_path", "perf.baseline", "perf.threshold"}


def test_anchors_merges_nulls_and_absent_keys() -> None:
    single, tp4, bare = cases(ANCHORS)
    assert single.usable
    assert bare.usable
    assert single.blocks == bare.blocks == []
    assert any("no performance benchmark" in note for note in single.notes)
    assert tp4.tp == 4
    assert tp4.env == {"VLLM_USE_MODELSCOPE": "true", "EXTRA": "1", "FLAG": "on"}
    assert "--request-rate inf" in " ".join(tp4.workloads[0].bench_args)


def test_the_last_of_a_flag_counts_and_underscores_are_dashes() -> None:
    (case,) = cases(DOUBLED)
    assert case.usable
    assert case.dp == 4
    assert case.serve_args == [
        *("--compilation-config", '{"cudagraph_mode": "FULL_DECODE_ONLY"}'),
        *("--additional-config", '{"enable_cpu_binding": true}', "--max-num-seqs", "16"),
    ]
    assert "given more than once, the last one counts: --additional-config, -dp" in case.notes


def test_variables_are_expanded_in_commands_only_and_unknown_ones_reported() -> None:
    (case,) = cases(DOUBLED)
    assert case.env["LD_PRELOAD"] == "/usr/lib/libjemalloc.so.2:$LD_PRELOAD"
    assert case.served_model_name == "${NOT_DEFINED_ANYWHERE}"
    assert case.unresolved == ["NOT_DEFINED_ANYWHERE"]


def test_our_own_environment_is_never_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOT_DEFINED_ANYWHERE", "leaked")
    assert cases(DOUBLED)[0].served_model_name == "${NOT_DEFINED_ANYWHERE}"


def test_a_port_that_upstream_chooses_stays_open_and_a_fixed_one_counts() -> None:
    command = 'server_cmd: ["--port", "$SERVER_PORT", --x, "$SERVER_PORT"]'
    text = f'test_cases: [{{{{name: a, envs: {{{{SERVER_PORT: "{{}}"}}}}, {command}}}}}]'
    chosen, fixed = cases(text.format("DEFAULT_PORT"))[0], cases(text.format(8123))[0]
    assert (chosen.port, chosen.unresolved) == (None, ["SERVER_PORT"])
    assert (fixed.port, fixed.unresolved, fixed.serve_args) == (8123, [], ["--x", "8123"])
    assert chosen.env == fixed.env == {}


def test_blocks_are_known_by_their_type_and_not_by_their_key() -> None:
    wrong, right = cases(MISNESTED)
    assert wrong.problems == ["envs.server_cmd_extra is a list, not a single value"]
    assert right.usable
    assert [block.name for block in right.workloads] == ["acc"]


def test_several_servers_are_unsupported_with_the_reason() -> None:
    (case,) = cases(EPD)
    assert not case.usable
    assert case.unsupported == "service_mode epd starts several servers"
    assert {"epd_server_cmds", "epd_proxy_args"} <= {item.name for item in case.not_carried_over}


def test_several_instances_are_unsupported_too() -> None:
    (case,) = cases("test_cases: [{name: a, service_mode: multi_instance, server_cmd: [[--x], [--y]]}]")
    assert case.unsupported == "service_mode multi_instance starts several servers"


def test_a_case_with_settings_for_model_runners_is_one_case_for_each() -> None:
    v1, v2 = cases(RUNNERS)
    assert (v1.name, v2.name) == ("r@v1", "r@v2")
    assert v1.env == {"VLLM_USE_V2_MODEL_RUNNER": "0", "A": "1"}
    assert v2.env == {"VLLM_USE_V2_MODEL_RUNNER": "1", "A": "2"}
    assert v1.serve_args == ["--x", "--y"]
    assert v2.serve_args == ["--x", "--y", "--z"]
    assert v1.usable
    assert v2.usable


@pytest.mark.parametrize(
    "configs", ["[v1]", "{v3: {}}", "{v1: [x]}", "{v1: {envs: [x]}}", "{v1: {server_cmd_extra: x}}"]
)
def test_malformed_settings_of_model_runners_are_named(configs: str) -> None:
    (case,) = cases(f"test_cases: [{{name: a, runner_configs: {configs}}}]")
    assert any("runner_configs" in problem for problem in case.problems)


@pytest.mark.parametrize(("text", "said"), [(DEPLOYMENT, "deployment"), (TEMPLATES, "templates, routing")])
def test_several_machines_are_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        cases(text)
    assert caught.value.code == "nightly_multi_node"


def test_hostile_text_is_refused_and_never_carried_out() -> None:
    (case,) = cases(HOSTILE)
    assert not case.usable
    assert "envs: 'A=1; rm -rf x' is no name of a variable" in case.problems
    assert "envs.NULL is null, not a single value" in case.problems
    assert "benchmarks is a list, not a mapping" in case.problems
    assert any("`id`" in problem for problem in case.problems)
    assert case.model == "$(id)"
    assert not Path("/tmp/pwn").exists()


BOMB = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join(f'*a{n - 1}' for _ in range(9))}]}}\n" for n in range(1, 12)
)
LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join(f'*a{n - 1}' for _ in range(9))}]\n" for n in range(1, 20))


@pytest.mark.timeout(20)
def test_references_that_multiply_cost_nothing() -> None:
    with contextlib.suppress(Refused):  # a parser that does not merge equal keys grows, and is stopped
        assert cases(BOMB + "test_cases: [{name: a, envs: {<<: *a11}}]")[0].env == {"k": "v"}
    assert all(case.problems == ["the case is a list, not a mapping"] for case in cases(LAUGHS + "test_cases: *a19"))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("test_cases: [" + "*a, " * 600, "not YAML"),
        ("a: &a [x]\ntest_cases: [" + "*a, " * 600 + "]", "aliases"),
        ("[" * 100_000, "nested|parts"),
        ("test_cases: " + "x" * 300_000, "bytes"),
        ("test_cases: [" + "{}," * 60_000 + "]", "parts"),
        ("test_cases: [" + "{}," * 600 + "]", "more than 500 cases"),
        ("&a test_cases: *a", "not"),
        ("test_cases: !!python/object/apply:os.system ['touch /tmp/pwn']", "not YAML"),
        ("test_cases: !!int x", "not YAML"),
        ("a: 1\n---\na: 2\n", "not YAML"),
        ("", "null"),
        ("- a\n", "a list"),
        ("test_cases: {a: b}", "a mapping"),
        ("test_cases: []", "empty"),
        ("test_cases:\n", "null"),
        ("other: 1", "no test_cases"),
        ("a\x00b: 1", "not YAML"),
        ("\ttest_cases: []", "not YAML"),
    ],
)
def test_what_is_no_configuration_or_exceeds_a_bound_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        cases(text)
    assert caught.value.code == "nightly_malformed"
    assert len(caught.value.message) < 600


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(Refused, match="UTF-8"):
        parse_nightly(b"\xff\xfe\x00", "x")


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("text", "the case is text"),
        ("{name: a, server_cmd: --port 1}", "server_cmd is text, not a list"),
        ("{name: a, server_cmd: [[x]]}", "server_cmd: item 1 is a list"),
        ("{name: a, server_cmd: [stray]}", "'stray', which is no flag"),
        ("{name: a, server_cmd: [-tp, two]}", "--tensor-parallel-size needs a number"),
        ("{name: a, server_cmd: [--port, '99999']}", "--port needs a number"),
        ("{name: a, envs: [A]}", "envs is a list"),
        ("{name: a, envs: {SERVER_PORT: x}}", "SERVER_PORT is 'x'"),
        ("{name: a, benchmarks: {p: [1]}}", "benchmarks.p is a list"),
        ("{name: a, benchmarks: {p: {case_type: performance, num_prompts: many}}}", "num_prompts is 'many'"),
        ("{name: a, benchmarks: {p: {case_type: performance, batch_size: -1}}}", "batch_size is '-1'"),
        ("{name: a, benchmarks: {p: {case_type: performance, ignore_eos: maybe}}}", "neither true nor false"),
        ("{name: a, benchmarks: {p: {case_type: performance, max_out_len: [1]}}}", "max_out_len is no single value"),
        ("{name: a, model: [x]}", "model is a list"),
    ],
)
def test_an_error_of_a_case_is_named_and_the_others_stay_usable(case: str, said: str) -> None:
    wrong, right = cases(f"test_cases: [{case}, {{name: right, server_cmd: [--x]}}]")
    assert not wrong.usable
    assert any(said in problem for problem in wrong.problems), wrong.problems
    assert right.usable


def test_a_name_of_two_cases_names_none() -> None:
    assert not any(case.usable for case in cases("test_cases: [{name: a}, {name: a}]"))


def test_a_key_that_stands_twice_is_noted_but_a_merged_one_is_not() -> None:
    file: File = parse_nightly(b"e: &e {A: x}\ntest_cases: [{name: a, envs: {<<: *e, A: y}, name: b}]", "x")
    assert file.notes == ["the key 'name' stands in a mapping twice; the last one counts"]
    assert file.cases[0].name == "b"
    assert file.cases[0].env == {"A": "y"}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("request_conf: vllm_api_general_stream", "--backend openai --endpoint /v1/completions"),
        ("request_rate: 0.5", "--request-rate 0.5"),
        ("num_prompts: '8'", "--num-prompts 8"),
        ("trust_remote_code: true", "--trust-remote-code"),
        ("thinking: false", '--extra-body {"chat_template_kwargs":{"enable_thinking":false}}'),
        ("repetition_penalty: 1.05", '--extra-body {"repetition_penalty":1.05}'),
        ("dataset_path: demo/ShareGPT", "--random-input-len 1024"),
        ("dataset_path: a/in12/GSM8K-in128-out", "--random-input-len 128"),
    ],
)
def test_a_key_of_a_block_becomes_arguments(entry: str, words: str) -> None:
    block, case = block_of(entry)
    assert case.usable
    assert words in " ".join(block.bench_args)


def test_upstream_forces_greedy_decoding_and_what_that_makes_moot_is_said() -> None:
    block, _case = block_of("temperature: 0.6, ignore_eos: false, top_p: 0.9, seed: 3, junk: 1")
    assert block.bench_args[-3:] == ["--ignore-eos", "--temperature", "0"]
    assert any("temperature 0.6 is not used" in note for note in block.notes)
    assert any("ignore_eos false is not used" in note for note in block.notes)
    assert {item.name for item in block.not_carried_over} == {"p.top_p", "p.seed", "p.junk"}


def test_a_baseline_of_another_client_is_not_compared_with() -> None:
    baseline = cases(BASIC)[0].workloads[0].baseline
    assert baseline is not None
    assert baseline.value == "1"
    with pytest.raises(Refused) as caught:
        require_comparable(baseline, "vllm bench serve")
    assert caught.value.code == "baseline_of_another_client"
    require_comparable(baseline, "aisbench")


@given(st.binary(max_size=400))
def test_no_bytes_do_more_than_be_refused(raw: bytes) -> None:
    with contextlib.suppress(Refused):
        assert parse_nightly(raw, "x").cases


YAML = st.recursive(
    st.one_of(st.none(), st.text("ab-$ {}=:", max_size=6), st.integers(), st.booleans()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab_", max_size=4), inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    "runner_configs",
    "name",
    "model",
    "envs",
    "server_cmd",
    "server_cmd_extra",
    "benchmarks",
    "service_mode",
    "epd_server_cmds",
)


@given(st.lists(st.dictionaries(st.sampled_from(KEYS), YAML, max_size=6), min_size=1, max_size=3))
def test_a_case_of_any_shape_is_usable_or_says_why_not(entries: list[dict[str, object]]) -> None:
    for case in cases(json.dumps({"test_cases": entries})):
        assert case.usable != bool(case.problems or case.unsupported)
        assert all(isinstance(word, str) for word in case.serve_args)

"""Nightly configurations, one for each shape that the files of vllm-ascend have."""

from __future__ import annotations

BASIC = """
test_cases:
  - name: "demo-w8a8"
    model: "demo-org/Demo-8B-W8A8"
    envs:
      HCCL_OP_EXPANSION_MODE: "AIV"
      SERVER_PORT: "DEFAULT_PORT"
    server_cmd:
      - "--quantization"
      - "ascend"
      - "--tensor-parallel-size"
      - "2"
      - "--port"
      - "$SERVER_PORT"
      - --gpu-memory-utilization
      - 0.90
    prompts: ["San Francisco is a"]
    api_keyword_args: {max_tokens: 10}
    test_content: ["completion"]
    benchmarks:
      acc: {case_type: accuracy, dataset_path: demo/gsm8k-lite, max_out_len: 4096, batch_size: 32, baseline: 95}
      perf: {case_type: performance, dataset_path: demo/GSM8K-in3500-bs400, request_conf: vllm_api_stream_chat,
             num_prompts: 400, max_out_len: 1500, batch_size: 100, request_rate: 11.2, baseline: 1, threshold: 0.97}
"""

ANCHORS = """
_envs: &envs {VLLM_USE_MODELSCOPE: "true", SERVER_PORT: "DEFAULT_PORT"}
_cmd: &cmd ["--async-scheduling", "--port", "$SERVER_PORT"]
_benchmarks: &benchmarks
  perf: {case_type: performance, num_prompts: 80, max_out_len: 1500, batch_size: 20, request_rate: 0}
test_cases:
  - {name: "single", model: "demo/M", envs: {<<: *envs}, server_cmd: *cmd, benchmarks: }
  - {name: "tp4", model: "demo/M", envs: {<<: *envs, EXTRA: 1, FLAG: on}, server_cmd: *cmd,
     server_cmd_extra: ["--tensor-parallel-size", "4"], benchmarks: {<<: *benchmarks}}
  - {name: "bare", model: "demo/M", envs: *envs, server_cmd: *cmd}
"""

DOUBLED = """
test_cases:
  - name: "underscore-json"
    model: "demo/M"
    envs: {SERVER_PORT: "DEFAULT_PORT", LD_PRELOAD: "/usr/lib/libjemalloc.so.2:$LD_PRELOAD", SIZE: "16"}
    server_cmd:
      - "--compilation_config"
      - '{"cudagraph_mode": "FULL_DECODE_ONLY"}'
      - "--additional-config"
      - '{"enable_weight_nz_layout": true}'
      - "--additional_config"
      - '{"enable_cpu_binding": true}'
      - "-dp"
      - "2"
      - "--data_parallel_size=4"
      - "--max-num-seqs"
      - "${SIZE}"
      - "--port"
      - "$SERVER_PORT"
      - "--served-model-name"
      - "${NOT_DEFINED_ANYWHERE}"
    benchmarks:
      perf_2: {case_type: performance, num_prompts: 10, max_out_len: 1, batch_size: 1, baseline: 100}
      perf_1: {case_type: performance, num_prompts: 512, max_out_len: 1500, batch_size: 64, request_rate: 1}
"""

MISNESTED = """
test_cases:
  - name: "wrong"
    model: "demo/M"
    envs: {A: "1", server_cmd_extra: ["--x"]}
    server_cmd: ["--quantization", "ascend"]
    benchmarks: {acc: {case_type: performance, num_prompts: 5}}
  - name: "right"
    model: "demo/M"
    server_cmd: ["--quantization", "ascend"]
    benchmarks: {acc: {case_type: performance, num_prompts: 5, batch_size: 2, max_out_len: 7}}
"""

EPD = """
test_cases:
  - name: "epd"
    model: "demo/VL"
    service_mode: "epd"
    epd_server_cmds: [["--port", "$ENCODE_PORT"]]
    epd_proxy_args: ["--port", "$PROXY_PORT"]
    benchmarks: {acc: {case_type: accuracy}}
"""

HOSTILE = """
test_cases:
  - name: "x; touch /tmp/pwn"
    model: "$(id)"
    envs: {"A=1; rm -rf x": "y", OK: "a\\nb", NUM: 1, "NULL": null}
    server_cmd: ["--port", "`id`", "--served-model-name", "a b'c\\"d"]
    benchmarks: [{case_type: performance, num_prompts: 1}]
"""

DEPLOYMENT = "test_name: two nodes\nmodel: demo/M\nnum_nodes: 2\ndeployment: [{server_cmd: vllm serve demo/M}]\n"
TEMPLATES = "model: demo/M\ntemplates: [{name: prefill}]\nconfig: [{node: 0}]\nrouting: {type: round_robin}\n"
RUNNERS = """
test_cases:
  - name: r
    model: demo/M
    envs: {A: "1"}
    server_cmd: ["--x"]
    server_cmd_extra: ["--y"]
    runner_configs:
      v1: {}
      v2: {envs: {A: "2"}, server_cmd_extra: ["--z"]}
"""

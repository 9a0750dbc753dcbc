"""The arguments and variables with which the real vLLM 0.32 serves the tiny model on a small CPU machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from install_vllm import Environment

HOST: Final = "127.0.0.1"
SERVED_MODEL_NAME: Final = "tiny"

# HF_HUB_OFFLINE: nothing is fetched. VLLM_CPU_KVCACHE_SPACE: one GiB instead of a share of the machine's memory.
ENV: Final[dict[str, str]] = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}

# Without --enforce-eager the start compiles for up to a minute more.
SERVE_FLAGS: Final[tuple[str, ...]] = ("--dtype", "bfloat16", "--max-model-len", "1024", "--enforce-eager")

# Host, port, model, tokenizer and the result file are added by the caller. The ready check is off by default, and
# without it a benchmark against no server at all exits 0 with nothing completed.
NUM_PROMPTS: Final = 8
BENCH_FLAGS: Final[tuple[str, ...]] = (
    "--backend",
    "openai",
    "--endpoint",
    "/v1/completions",
    "--dataset-name",
    "random",
    "--random-input-len",
    "64",
    "--random-output-len",
    "16",
    "--num-prompts",
    str(NUM_PROMPTS),
    "--max-concurrency",
    "2",
    "--ignore-eos",
    "--ready-check-timeout-sec",
    "30",
)

# Measured on 2 cores: ready in 17 to 25 s, a benchmark in 6 to 12 s, gone 0.4 s after SIGINT.
READY_TIMEOUT_S: Final = 180.0
BENCH_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 30.0


def variables(place: Environment) -> dict[str, str]:
    """Return the variables for every `vllm` command: `ENV`, and a cache that is not the user's own."""
    return {**ENV, "VLLM_CACHE_ROOT": str(place.path / "vllm-cache")}


def serve_argv(place: Environment, port: int) -> list[str]:
    """Return the command that serves the tiny model on loopback."""
    where = ["--host", HOST, "--port", str(port), "--served-model-name", SERVED_MODEL_NAME]
    return [str(place.vllm), "serve", str(place.model), *where, *SERVE_FLAGS]


def bench_argv(place: Environment, port: int, result: Path) -> list[str]:
    """Return the command that measures that server and writes its figures to `result`."""
    where = ["--host", HOST, "--port", str(port)]
    # The served name is no path, so the client cannot find the tokenizer by itself.
    model = ["--model", SERVED_MODEL_NAME, "--served-model-name", SERVED_MODEL_NAME, "--tokenizer", str(place.model)]
    saved = ["--save-result", "--result-dir", str(result.parent), "--result-filename", result.name]
    return [str(place.vllm), "bench", "serve", *where, *model, *BENCH_FLAGS, *saved]

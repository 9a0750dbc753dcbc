"""The command of the benchmark client is exact; what matters is explicit and not left to its defaults."""

from __future__ import annotations

from typing import Any

import pytest

from vaws_mcp.bench.command import DEFAULT_PROMPTS, bench_argv, expected_prompts
from vaws_mcp.bench.models import BenchRunRequest
from vaws_mcp.bench.settings import DEFAULT_BENCH_ARGS, OWNED_FLAGS, BenchSettings
from vaws_mcp.core.failures import Refused


def settings(**fields: Any) -> BenchSettings:
    return BenchSettings.of(BenchRunRequest.model_validate({"model": "/models/m", **fields}))


def test_the_exact_command() -> None:
    argv = bench_argv(settings(bench_args="--num-prompts 4"), 8000, "/remote/dir", "a-1.json")
    assert argv == [
        *("vllm", "bench", "serve", "--host", "127.0.0.1", "--port", "8000"),
        *("--model", "/models/m", "--served-model-name", "m"),
        *("--backend", "openai-chat", "--endpoint", "/v1/chat/completions"),
        *("--temperature", "0", "--ready-check-timeout-sec", "60", "--disable-tqdm"),
        *("--num-prompts", "4"),
        *("--save-result", "--result-dir", "/remote/dir", "--result-filename", "a-1.json"),
    ]


@pytest.mark.parametrize(
    "brought",
    ["--backend vllm", "--backend=vllm", "--endpoint-type openai", "--backend openai --endpoint /v1/completions"],
)
def test_a_backend_that_is_brought_is_not_doubled(brought: str) -> None:
    argv = bench_argv(settings(bench_args=brought), 1, "d", "n")
    assert "openai-chat" not in argv
    assert "/v1/chat/completions" not in argv
    assert sum(word.split("=")[0] in ("--backend", "--endpoint-type") for word in argv) == 1


@pytest.mark.parametrize("brought", ["--temperature 0.7", "--temperature=0.7"])
def test_temperature_is_explicit_once(brought: str) -> None:
    argv = bench_argv(settings(bench_args=brought), 1, "d", "n")
    assert sum(word.startswith("--temperature") for word in argv) == 1


def test_defaults_are_a_small_random_load() -> None:
    assert settings().bench_args == DEFAULT_BENCH_ARGS
    assert expected_prompts(settings().bench_args) == 32


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ((), DEFAULT_PROMPTS),
        (("--num-prompts", "7"), 7),
        (("--num-prompts=7",), 7),
        (("--num_prompts", "7"), 7),
        (("--num-prompts", "7", "--num-prompts", "8"), 8),
        (("--num-prompts",), None),
        (("--num-prompts", "many"), None),
    ],
)
def test_the_number_of_requests_is_read_from_the_arguments(words: tuple[str, ...], count: int | None) -> None:
    assert expected_prompts(words) == count


def test_a_backend_given_with_underscores_is_not_joined_by_ours() -> None:
    assert "openai-chat" not in bench_argv(settings(bench_args="--endpoint_type openai"), 1, "d", "n")


@pytest.mark.parametrize("flag", sorted(OWNED_FLAGS))
def test_what_we_set_ourselves_is_refused(flag: str) -> None:
    with pytest.raises(Refused, match=flag):
        settings(bench_args=[f"{flag}=x"])


def test_the_shown_settings_hold_no_secret() -> None:
    shown = settings(
        serve_args="--api-key abc123", extra_env={"HF_TOKEN": "abc123", "A": "1"}, bench_env=["API_KEY=abc123"]
    ).as_config()
    assert "abc123" not in str(shown)
    assert shown["env"] == {"HF_TOKEN": "***", "A": "1"}

"""Prompts of an exact number of tokens, and the client's arguments to send them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vaws_mcp.bench.settings import FixedDataset
from vaws_mcp.comparison.fixed_requests import BASE, Count, exact_prompt, fixed_load
from vaws_mcp.core.failures import Failure

WANTED = FixedDataset(512, 64)


async def words(text: str) -> int:
    """Count words and marks, with one token that begins every text."""
    return 1 + len(re.findall(r"\w+|[^\w\s]", text))


async def pieces(text: str) -> int:
    """Count pieces of four characters."""
    return -(-len(text) // 4)


@pytest.mark.asyncio
@pytest.mark.parametrize("count", [words, pieces])
@pytest.mark.parametrize("tokens", [2, 7, 100, 513, 2048])
async def test_a_prompt_has_exactly_so_many_tokens(count: Count, tokens: int) -> None:
    text = await exact_prompt(BASE, tokens, count)
    assert await count(text) == tokens


@settings(max_examples=60, deadline=None)
@given(base=st.text(alphabet=st.sampled_from("ab .,é漢\n"), min_size=1, max_size=60), tokens=st.integers(3, 300))
@pytest.mark.asyncio
async def test_any_base_text_gives_an_exact_prompt_or_a_clear_failure(base: str, tokens: int) -> None:
    try:
        text = await exact_prompt(base, tokens, words)
    except Failure as failure:
        found = failure.code
    else:
        found = await words(text)
    assert found in ("prompt_inexact", tokens)


@pytest.mark.asyncio
async def test_a_tokenizer_that_jumps_over_the_length_is_said_to() -> None:
    async def even(text: str) -> int:
        return 2 * len(text)

    with pytest.raises(Failure) as caught:
        await exact_prompt(BASE, 7, even)
    assert caught.value.code == "prompt_inexact"
    assert "7 tokens" in caught.value.message


def test_the_fixed_requests_take_the_place_of_the_data_set() -> None:
    args = ("--dataset-name", "random", "--random-input-len", "5", "--num-prompts", "3", "--seed", "1")
    load = fixed_load(args, WANTED, "/d/fixed.jsonl")
    assert load.why is None
    assert load.bench_args[:4] == ("--num-prompts", "3", "--seed", "1")
    joined = " ".join(load.bench_args)
    assert "random" not in joined
    assert "--dataset-name custom --dataset-path /d/fixed.jsonl --custom-output-len 64" in joined
    assert "--backend openai --endpoint /v1/completions" in joined


def test_chat_is_kept_and_said_to_be_inexact() -> None:
    load = fixed_load(("--backend", "openai-chat"), WANTED, "/d/fixed.jsonl")
    assert load.why is not None
    assert load.bench_args.count("--backend") == 1
    assert load.bench_args[load.bench_args.index("--endpoint") + 1] == "/v1/chat/completions"

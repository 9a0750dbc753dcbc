"""The simulated tokenizer and the words of the simulated model.

A token is a run of word characters or one other character, each with the blanks before it; joining the tokens gives
the text back. So the client of the benchmark and the server count alike.
"""

import random
import re
from collections.abc import Sequence

from vaws_mcp.sim import chance

VOCABULARY = (
    "the of and to a in is that it for was on are as with they be at this from have or by one had not but what all "
    "were when we there can an your which their said if do will each about how up out them then she many some so "
    "these would other into has more her two like him see time could no make than first been its who now people my "
    "made over did down only way find use may water long little very after words called just where most know"
)
WORDS = VOCABULARY.split()
TEMPLATE_TOKENS = 3
MESSAGE_TOKENS = 4
_TOKEN = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")


def tokenize(text: str) -> list[str]:
    """Split text into tokens."""
    return _TOKEN.findall(text)


def count_tokens(text: str) -> int:
    """Count the tokens of a text."""
    return len(tokenize(text))


def random_prompt(source: random.Random, tokens: int) -> str:
    """Return a prompt of exactly so many tokens."""
    return " ".join(source.choices(WORDS, k=tokens))


def answer(prompt: str, limit: int, salt: str = "", whole: bool = False) -> tuple[list[str], str]:
    """Return the tokens of the answer to a prompt and the reason why it ends.

    The same prompt and salt give the same answer. With ``whole`` the answer never ends before its limit.
    """
    words = chance.source("answer", salt, prompt)
    natural = words.randint(12, 200)
    length = limit if whole else min(limit, natural)
    tokens = [f" {word}" for word in words.choices(WORDS, k=length)]
    return tokens, "length" if length == limit else "stop"


def accepted_lengths(source: random.Random, total: int, drafts: int, acceptance: float) -> list[tuple[int, int]]:
    """Split ``total`` tokens into decoding steps with speculation.

    Returns pairs of (tokens of the step, accepted draft tokens); without drafts every step has one token.
    """
    steps: list[tuple[int, int]] = []
    left = total
    while left > 0:
        accepted = 0
        while accepted < min(drafts, left - 1) and source.random() < acceptance:
            accepted += 1
        steps.append((accepted + 1, accepted))
        left -= accepted + 1
    return steps


def chat_prompt(messages: Sequence[tuple[str, str]]) -> tuple[str, int]:
    """Return the text and the token count of a chat after the template."""
    text = "\n".join(f"{role}: {content}" for role, content in messages)
    tokens = sum(count_tokens(content) + MESSAGE_TOKENS for _, content in messages) + TEMPLATE_TOKENS
    return text, tokens

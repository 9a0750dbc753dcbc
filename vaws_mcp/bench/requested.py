"""How many tokens the client was told to ask for. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_OUTPUT_LENGTHS = {"random": ("random_output_len", 128), "custom": ("custom_output_len", 256)}
_ABBREVIATED = {"random_input": "random_input_len", "random_output": "random_output_len"}
_SWITCHES = ("ignore_eos",)


class Asked(NamedTuple):
    """Generated tokens that the requests ask for; ``exact`` says that a server may not end an answer earlier."""

    output_tokens: int
    exact: bool


def arguments_of(words: Sequence[str]) -> dict[str, str]:
    """Return the client's flags by the names that it prints them under; the last of equal flags counts."""
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        if not word.startswith("--"):
            continue
        flag, equals, value = word[2:].partition("=")
        name = flag.replace("-", "_")
        following = words[index + 1] if index + 1 < len(words) else ""
        found[_ABBREVIATED.get(name, name)] = value if equals else "True" if name in _SWITCHES else following
    return found


def asked_tokens(arguments: Mapping[str, str], prompts: int | None) -> Asked | None:
    """Return what so many requests ask for, or None when the arguments do not say.

    Only data sets in which all requests ask for the same can be told; lengths that are drawn cannot.
    """
    known = _OUTPUT_LENGTHS.get(arguments.get("dataset_name", ""))
    if known is None or prompts is None or _is_drawn(arguments.get("random_range_ratio", "0")):
        return None
    name, default = known
    given = arguments.get("output_len", "None")
    given = arguments.get(name, str(default)) if given == "None" else given
    if not given.isdecimal():
        return None
    return Asked(int(given) * prompts, arguments.get("ignore_eos") == "True")


def _is_drawn(ratio: str) -> bool:
    try:
        return float(ratio) != 0
    except ValueError:
        return True  # a mapping with a ratio for each side


def shortfall(asked: Asked | None, produced: int | None) -> str | None:
    """Return a sentence when a server that had to produce every token did not."""
    if asked is None or not asked.exact or produced is None or produced == asked.output_tokens:
        return None
    return f"The requests asked for {asked.output_tokens} tokens and got {produced}, although --ignore-eos was given."

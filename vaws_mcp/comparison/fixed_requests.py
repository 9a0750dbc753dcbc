"""Identical requests of an exact number of tokens, made once on the endpoint with the model's own tokenizer."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import Field

from vaws_mcp.bench.settings import FixedDataset
from vaws_mcp.comparison.cases import with_options
from vaws_mcp.core.failures import Failure
from vaws_mcp.core.sanitize import one_line
from vaws_mcp.endpoint.connect import Endpoint
from vaws_mcp.serving.settings import flag_value, without_flags
from vaws_mcp.serving.target import Target, http
from vaws_mcp.store.records import Record, load, save

FILE = "fixed_dataset.json"
BASE = (
    "The library on the hill keeps letters, maps and ledgers that people of the valley wrote over three hundred years. "
    "Every spring a group of students reads some of them aloud, writes down what they find, and compares it with what "
    "the older books say about roads, prices, weather and harvests. "
)
FILLERS = (" a", " the", " of", ".", ",", " one", "\n", "!")
TOKENIZE_S = 60.0
MOST_FILLERS = 64
DATASET_FLAGS = (
    *("--dataset-name", "--dataset-path", "--input-len", "--output-len", "--custom-output-len"),
    *("--random-input-len", "--random-output-len", "--random-range-ratio", "--random-prefix-len"),
    *("--sharegpt-output-len", "--sonnet-input-len", "--sonnet-output-len", "--sonnet-prefix-len"),
)

Count = Callable[[str], Awaitable[int]]


class FixedRequests(Record):
    """``fixed_dataset.json``: what the requests are. ``exact`` says that a request is these tokens and no others."""

    schema_: Literal["vaws.fixed_requests.v1"] = Field(default="vaws.fixed_requests.v1", alias="schema")  # pyright: ignore[reportIncompatibleVariableOverride]
    path: str
    made: bool
    exact: bool
    input_len: int | None
    output_len: int
    rows: int | None = None
    prompt_sha256: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the field of the result."""
        return self.model_dump(mode="json", by_alias=False, exclude={"schema_"})


@dataclass(frozen=True)
class FixedLoad:
    """The arguments of a client that sends the fixed requests. ``why`` says what keeps them from being exact."""

    bench_args: tuple[str, ...]
    why: str | None


def fixed_load(bench_args: tuple[str, ...], wanted: FixedDataset, path: str) -> FixedLoad:
    """Return the client's arguments with the fixed requests in place of the data set they name. Pure.

    A backend or endpoint that the arguments bring stays; only plain completions send exactly the prompt's tokens.
    """
    backend = flag_value(bench_args, ("--backend", "--endpoint-type"))
    url = flag_value(bench_args, ("--endpoint",))
    options: dict[str, str | None] = {
        "--dataset-name": "custom",
        "--dataset-path": path,
        "--custom-output-len": str(wanted.output_len),
        "--skip-chat-template": None,
        "--disable-shuffle": None,
        "--ignore-eos": None,
    }
    if backend is None:
        options["--backend"] = "openai"
    if url is None:
        options["--endpoint"] = "/v1/chat/completions" if backend and "chat" in backend else "/v1/completions"
    whole = with_options(without_flags(bench_args, DATASET_FLAGS), options)
    why = None
    if (backend and "chat" in backend) or (url and "chat" in url):
        why = "bench_args send the prompts as chat, which adds the template's tokens"
    return FixedLoad(whole, why)


async def made(endpoint: Endpoint, target: Target, wanted: FixedDataset, path: str, rows: int) -> FixedRequests:
    """Make the prompt with the service's tokenizer and write it ``rows`` times to ``path`` on the endpoint.

    Raises: Failure ``tokenizer_missing`` or ``prompt_inexact``; of the endpoint.
    """

    async def count(text: str) -> int:
        return await _count(endpoint, target, text)

    prompt = await exact_prompt(wanted.prompt or BASE, wanted.input_len, count)
    line = orjson.dumps({"prompt": prompt, "output_tokens": wanted.output_len}) + b"\n"
    await endpoint.call("write", {"path": path}, body=line * rows, deadline_s=300.0)
    return FixedRequests(
        path=path,
        made=True,
        exact=True,
        input_len=wanted.input_len,
        output_len=wanted.output_len,
        rows=rows,
        prompt_sha256=hashlib.sha256(prompt.encode()).hexdigest(),
    )


async def existing(endpoint: Endpoint, wanted: FixedDataset, path: str) -> FixedRequests:
    """Return what is known of a data set that the endpoint has already.

    Raises: Failure ``dataset_missing``; of the endpoint.
    """
    params = {"argv": ["sha256sum", "--", path], "timeout_s": TOKENIZE_S, "max_output_bytes": 8192}
    answer = await endpoint.call("run", {**params, "cwd": endpoint.config.workdir}, deadline_s=TOKENIZE_S + 10)
    if answer.result["exit_code"] != 0:
        raise Failure(
            "dataset_missing",
            f"cannot read the data set {path} on {endpoint.config.address}",
            layer="remote_env",
            hint="Correct fixed_dataset_path, or leave it out to have one made.",
            phase="fixed_dataset",
        )
    digest = answer.body.decode("utf-8", "replace").lstrip("\\").split()[0]
    return FixedRequests(
        path=path,
        made=False,
        exact=True,
        input_len=None,
        output_len=wanted.output_len,
        prompt_sha256=digest,
    )


async def exact_prompt(base: str, tokens: int, count: Count) -> str:
    """Return a text of exactly so many tokens that begins with ``base``, repeated as needed.

    Raises: Failure ``prompt_inexact`` when the tokenizer allows no such text of this base.
    """
    words = _words(base, tokens)
    low, high = 0, len(words)
    while low < high:  # the most words that are not too many tokens
        middle = (low + high + 1) // 2
        if await count("".join(words[:middle])) <= tokens:
            low = middle
        else:
            high = middle - 1
    text = "".join(words[:low])
    have = await count(text) if text else 0
    for _ in range(MOST_FILLERS):
        if have == tokens:
            return text
        step = await _filled(text, have, tokens, count)
        if step is None:
            break
        text, have = step
    if have == tokens:
        return text
    raise Failure(
        "prompt_inexact",
        f"no prompt of exactly {tokens} tokens was found; the nearest has {have}",
        layer="remote_workload",
        hint="Choose another fixed_prompt or fixed_input_len.",
        phase="fixed_dataset",
    )


async def _filled(text: str, have: int, tokens: int, count: Count) -> tuple[str, int] | None:
    """Return the text with one more piece that brings it nearer without going beyond."""
    for piece in FILLERS:
        longer = text + piece
        found = await count(longer)
        if have < found <= tokens:
            return longer, found
    return None


def _words(base: str, tokens: int) -> list[str]:
    """Return enough words with the blanks before them; a word is at least one token."""
    plain = base.split() or ["word"]
    repeated = (plain * (tokens // len(plain) + 1))[:tokens]
    return [word if index == 0 else f" {word}" for index, word in enumerate(repeated)]


async def _count(endpoint: Endpoint, target: Target, text: str) -> int:
    body = orjson.dumps({"model": target.served_model_name, "prompt": text})
    answer = await http(endpoint, target, "/tokenize", body, TOKENIZE_S, 8 << 20)
    try:
        return int(orjson.loads(answer["body"])["count"])
    except (ValueError, KeyError, TypeError):
        said = one_line(answer["body"].decode("utf-8", "replace"), 200)
        raise Failure(
            "tokenizer_missing",
            f"the service does not count tokens: /tokenize answers {answer['status'] or answer['error']}: {said}",
            layer="remote_workload",
            hint="Serve without --skip-tokenizer-init, or give a data set with fixed_dataset_path.",
            phase="fixed_dataset",
        ) from None


def keep(run_dir: Path, found: FixedRequests) -> None:
    """Write down what the requests are."""
    save(run_dir / FILE, found)


def kept(run_dir: Path) -> FixedRequests | None:
    """Return what a run has written down about its requests, or None."""
    try:
        return load(run_dir / FILE, FixedRequests)
    except FileNotFoundError:
        return None

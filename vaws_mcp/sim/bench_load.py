"""The load of ``vllm bench serve``: which requests, when, and how many at once."""

import argparse
import asyncio
import json
import math
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaws_mcp.sim import chance
from vaws_mcp.sim.bench_args import UsageError, key_values, sampling
from vaws_mcp.sim.bench_client import Outcome, Target, get, request
from vaws_mcp.sim.bench_report import Speculation
from vaws_mcp.sim.text import count_tokens, random_prompt

READY_PAUSE_S = 5.0
COUNTER = re.compile(r"^vllm:spec_decode_num_(\w+)_total\{([^}]*)\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Prompt:
    """One request of the load."""

    text: str
    tokens: int
    output: int


def sample(args: argparse.Namespace) -> list[Prompt]:
    """Return the load, the same for the same seed.

    Raises: UsageError when a custom file is not usable.
    """
    source = chance.source("load", args.seed)
    if args.dataset_name == "custom":
        return _custom(args, source)
    ratio = float(args.random_range_ratio)
    prompts: list[Prompt] = []
    for _ in range(args.num_prompts):
        lengths = (args.input_len or args.random_input_len, args.output_len or args.random_output_len)
        size, output = (source.randint(math.floor(n * (1 - ratio)), math.ceil(n * (1 + ratio))) for n in lengths)
        prompts.append(Prompt(random_prompt(source, max(1, size)), max(1, size), max(1, output)))
    return prompts


def _custom(args: argparse.Namespace, source: random.Random) -> list[Prompt]:
    with Path(args.dataset_path).open(encoding="utf-8") as file:
        rows: list[dict[str, Any]] = [json.loads(line) for line in file if line.strip()]
    if not rows or any("prompt" not in row for row in rows):
        raise UsageError("ValueError: JSONL file must contain a 'prompt' column.")
    if not args.disable_shuffle:
        source.shuffle(rows)
    if not args.no_oversample:
        rows += source.choices(rows, k=max(0, args.num_prompts - len(rows)))
    length = args.output_len or args.custom_output_len
    prompts: list[Prompt] = []
    for row in rows[: args.num_prompts]:
        output = length if length != -1 else int(row["output_tokens"])
        prompts.append(Prompt(str(row["prompt"]), count_tokens(str(row["prompt"])), output))
    return prompts


def target_of(args: argparse.Namespace) -> Target:
    """Return the server that the arguments name.

    Raises: UsageError for an address that cannot be used.
    """
    headers = tuple(key_values(args.header).items())
    if not args.base_url:
        return Target(args.host, args.port, headers=headers)
    match = re.fullmatch(r"http://(\[[^\]]+\]|[^:/]+)(?::(\d+))?(/.*)?", args.base_url)
    if not match:
        raise UsageError(f"ValueError: Invalid base URL: {args.base_url}")
    return Target(match[1].strip("[]"), int(match[2] or 80), (match[3] or "").rstrip("/"), headers)


def _payload(args: argparse.Namespace, model: str, prompt: Prompt) -> dict[str, Any]:
    chat = args.backend == "openai-chat"
    body: dict[str, Any] = {"model": model}
    if chat:
        body["messages"] = [{"role": "user", "content": [{"type": "text", "text": prompt.text}]}]
        body["max_completion_tokens"] = prompt.output
    else:
        body |= {"prompt": prompt.text, "max_tokens": prompt.output, "repetition_penalty": 1.0}
    if not args.no_stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if args.ignore_eos or args.dataset_name == "random":
        body["ignore_eos"] = True
    return body | sampling(args) | (args.extra_body or {})


async def speculation_counters(target: Target) -> dict[str, float]:
    """Read the server's counters of speculative decoding; empty when it has none."""
    try:
        _, body = await get(target, "/metrics")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError):
        return {}
    counters: dict[str, float] = {}
    for name, labels, value in COUNTER.findall(body.decode("utf-8", "replace")):
        position = re.search(r'position="(\d+)"', labels)
        key = f"{name}:{position[1]}" if position else name
        counters[key] = counters.get(key, 0.0) + float(value)
    return counters


def speculation_between(before: dict[str, float], after: dict[str, float]) -> Speculation | None:
    """Return what was drafted between two readings, or None when nothing was."""
    delta = {key: int(value - before.get(key, 0.0)) for key, value in after.items()}
    if delta.get("drafts", 0) <= 0:
        return None
    positions = sorted((int(key.split(":")[1]), count) for key, count in delta.items() if ":" in key)
    accepted_at = tuple(count for _, count in positions)
    return Speculation(delta["drafts"], delta["draft_tokens"], delta["accepted_tokens"], accepted_at)


class Progress:
    """The progress bar on standard error."""

    def __init__(self, total: int, silent: bool) -> None:
        self.total = total
        self.silent = silent
        self.done = 0
        self.began = self.shown = time.perf_counter()
        self._show(self.began)

    def step(self) -> None:
        """Count one finished request."""
        self.done += 1
        now = time.perf_counter()
        if now - self.shown > 0.1 or self.done == self.total:
            self._show(now)

    def _show(self, now: float) -> None:
        if self.silent:
            return
        self.shown = now
        elapsed = now - self.began
        part = self.done / self.total if self.total else 1.0
        bar = ("█" * int(part * 10)).ljust(10)
        rate = f"{self.done / elapsed:.2f}it/s" if self.done and elapsed else "?it/s"
        clock = f"{int(elapsed) // 60:02d}:{int(elapsed) % 60:02d}"
        sys.stderr.write(f"\r{part * 100:3.0f}%|{bar}| {self.done}/{self.total} [{clock}<00:00, {rate}]")
        sys.stderr.write("\n" if self.done == self.total else "")
        sys.stderr.flush()


class Load:
    """Sends the requests of one benchmark."""

    def __init__(self, args: argparse.Namespace, target: Target, model: str, dead: bool) -> None:
        self.args = args
        self.target = target
        self.model = model
        self.dead = dead

    async def send(self, prompt: Prompt, name: str) -> Outcome:
        """Send one request."""
        if self.dead:
            return Outcome(prompt.tokens, time.perf_counter(), error="Internal Server Error")
        payload = _payload(self.args, self.model, prompt)
        return await request(self.target, self.args.endpoint, payload, name, prompt.tokens)

    async def wait_ready(self, prompt: Prompt) -> None:
        """Try a request until one succeeds.

        Raises: UsageError when the time is over.
        """
        limit = self.args.ready_check_timeout_sec
        print("Starting initial single prompt test run...")
        if limit <= 0:
            print("Skipping endpoint ready check.")
            return
        print(f"Waiting for endpoint to become up in {limit} seconds", flush=True)
        end = time.monotonic() + limit
        while True:
            outcome = await self.send(prompt, "ready-check")
            if outcome.success:
                return
            last = outcome.error.strip().splitlines()[-1] if outcome.error else "no answer"
            print(f"WARNING Endpoint is not ready. Error='{last}'", flush=True)
            left = end - time.monotonic()
            if left <= 0:
                text = "ValueError: Initial test run failed - Please make sure benchmark arguments are correctly "
                raise UsageError(f"{text}specified. Error: {outcome.error.strip()}")
            await asyncio.sleep(min(READY_PAUSE_S, left))

    async def run(self, prompts: list[Prompt], prefix: str, progress: Callable[[], None]) -> list[Outcome]:
        """Send all requests at the asked rate and concurrency; outcomes are in the order of the prompts."""
        args = self.args
        source = chance.source("arrivals", args.seed)
        slots = asyncio.Semaphore(args.max_concurrency or max(1, len(prompts)))

        async def one(index: int) -> Outcome:
            async with slots:
                outcome = await self.send(prompts[index], f"{prefix}{index}")
            progress()
            return outcome

        tasks: list[asyncio.Task[Outcome]] = []
        due = time.perf_counter()
        for index in range(len(prompts)):
            if args.request_rate != math.inf:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                due += source.gammavariate(args.burstiness, 1.0 / (args.request_rate * args.burstiness))
            tasks.append(asyncio.create_task(one(index)))
        return [await task for task in tasks]

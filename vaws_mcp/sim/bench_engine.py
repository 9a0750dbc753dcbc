"""The simulated ``vllm bench latency`` and ``vllm bench throughput``: an engine of its own, and no server."""

import argparse
import contextlib
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, NoReturn

from vaws_mcp.sim.api_server import StartError, plan_engines, read_model
from vaws_mcp.sim.bench_report import percentile
from vaws_mcp.sim.engine import READY, TICK_S, spawn
from vaws_mcp.sim.latency import LatencyModel, next_launch, read_tree
from vaws_mcp.sim.log import Log, write
from vaws_mcp.sim.serve_args import USAGE, ServeArgs
from vaws_mcp.sim.serve_args import parse as parse_engine
from vaws_mcp.sim.settings import VLLM_VERSION, active_faults, read_settings

STOP_S = 3.0
RANKS = (10, 25, 50, 75, 90, 99)
KINDS = ("latency", "throughput")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{USAGE}vllm: error: {message}\n")
        sys.exit(2)


def _parser(kind: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=f"vllm bench {kind}", add_help=False)
    parser.add_argument("--output-json")
    parser.add_argument("--input-len", type=int, default=32 if kind == "latency" else None)
    parser.add_argument("--output-len", type=int, default=128 if kind == "latency" else None)
    if kind == "latency":
        for name, default in (("batch-size", 8), ("num-iters", 30), ("num-iters-warmup", 10), ("n", 1)):
            parser.add_argument(f"--{name}", type=int, default=default)
        return parser
    parser.add_argument("--num-prompts", type=int, default=1000)
    parser.add_argument("--dataset-name", default="random", choices=("random",))
    parser.add_argument("--random-input-len", type=int, default=1024)
    parser.add_argument("--random-output-len", type=int, default=128)
    parser.add_argument("--backend", default="vllm", choices=("vllm",))
    parser.add_argument("--disable-detokenize", action="store_true")
    return parser


def parse(kind: str, words: list[str]) -> tuple[argparse.Namespace, ServeArgs]:
    """Parse the words after ``vllm bench latency`` or ``throughput``; exits 2 when a flag is unknown to both parts."""
    dashed = [f"{word.partition('=')[0].replace('_', '-')}{word[len(word.partition('=')[0]) :]}" for word in words]
    dashed = [new if new.startswith("--") else old for old, new in zip(words, dashed, strict=True)]
    args, rest = _parser(kind).parse_known_args(dashed)
    return args, parse_engine(rest)


@contextlib.contextmanager
def _engine(engine: ServeArgs, log: Log) -> Generator[LatencyModel]:
    """Start the engine cores, lend the latency of this launch, and stop them.

    Raises: StartError with the text of the real program.
    """
    settings = read_settings()
    model = read_model(engine)
    log.say("model.py:733", f"Resolved architecture: {model.architecture}")
    log.say("model.py:2152", f"Using max model len {model.max_len}")
    try:
        tree = read_tree()
        faults = active_faults(settings) | frozenset(tree.faults)
    except ValueError as error:
        raise StartError("plugins/__init__.py", "load_plugins_by_group", f"ValueError: {error}") from None
    cores = [spawn(plan) for plan in plan_engines(engine, settings, faults)]
    try:
        for process, sock in cores:
            while not select.select([sock], [], [], TICK_S)[0]:
                if not settings.supervised():
                    sys.exit(1)
            if sock.recv(64) != READY:
                process.wait(STOP_S)
                text = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): "
                raise StartError("v1/engine/core_client.py", "wait_for_engine_startup", f"{text}{{'EngineCore': 1}}")
        yield LatencyModel(settings, tree, next_launch(settings.root))
        log.say("utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore")
    finally:
        _stop(cores)


def _stop(cores: "list[tuple[subprocess.Popen[bytes], socket.socket]]") -> None:
    for process, sock in cores:
        sock.close()
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + STOP_S
    for process, _ in cores:
        try:
            process.wait(max(0.01, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()


def _bar(title: str, done: int, total: int) -> None:
    """Write one line of a progress bar to standard error, as the real program leaves them in a file."""
    share = done / total if total else 1.0
    write(2, f"\r{title}: {share:4.0%}|{'█' * int(share * 10):<10}| {done}/{total} [00:00<00:00,  8.38it/s]\n")


def _iterate(title: str, count: int, seconds: list[float]) -> list[float]:
    """Let so many iterations pass, each with a bar; returns how long each took."""
    took: list[float] = []
    _bar(title, 0, count)
    for index in range(count):
        began = time.perf_counter()
        time.sleep(seconds[index % len(seconds)])
        took.append(time.perf_counter() - began)
        _bar(title, index + 1, count)
    return took


def _latency(args: argparse.Namespace, engine: ServeArgs, model: LatencyModel) -> dict[str, Any]:
    steps = [
        model.ttft(args.input_len * args.batch_size) + model.tpot(run) * (args.output_len - 1)
        for run in range(1, max(1, args.num_iters) + 1)
    ]
    print("Warming up...", flush=True)
    _iterate("Warmup iterations", args.num_iters_warmup, steps)
    latencies = _iterate("Bench iterations", args.num_iters, steps)
    average = sum(latencies) / len(latencies)
    percentiles = {str(rank): percentile(latencies, rank) for rank in RANKS}
    print(f"Avg latency: {average} seconds")
    for rank, value in percentiles.items():
        print(f"{rank}% percentile latency: {value} seconds")
    found = {"model_id": engine.model, "avg_latency": average, "latencies": latencies}
    return found | {"percentiles": percentiles}


def _throughput(args: argparse.Namespace, engine: ServeArgs, model: LatencyModel) -> dict[str, Any]:
    size, output = args.input_len or args.random_input_len, args.output_len or args.random_output_len
    batches = -(-args.num_prompts // engine.max_num_seqs)
    step = model.ttft(size) + model.tpot(1) * (output - 1)
    elapsed = sum(_iterate("Processed prompts", batches, [step]))
    prompt_tokens, output_tokens = args.num_prompts * size, args.num_prompts * output
    total = prompt_tokens + output_tokens
    rates = {"requests_per_second": args.num_prompts / elapsed, "tokens_per_second": total / elapsed}
    print(
        f"Throughput: {args.num_prompts / elapsed:.2f} requests/s, {total / elapsed:.2f} total tokens/s, "
        f"{output_tokens / elapsed:.2f} output tokens/s"
    )
    print(f"Total num prompt tokens:  {prompt_tokens}\nTotal num output tokens:  {output_tokens}", flush=True)
    counts = {"num_requests": args.num_prompts, "total_num_tokens": total}
    return {"model_id": engine.model, "elapsed_time": elapsed, **counts, **rates}


def main(kind: str, args: argparse.Namespace, engine: ServeArgs) -> int:
    """Run the benchmark; returns the exit status."""
    log = Log("MainProcess")
    log.say("api_utils.py:286", f"non-default args: {engine.shown()}")
    log.say("core.py:133", f"Initializing a V1 LLM engine (v{VLLM_VERSION}) with config: model='{engine.model}'")
    try:
        with _engine(engine, log) as model:
            found = _latency(args, engine, model) if kind == "latency" else _throughput(args, engine, model)
    except StartError as error:
        log.traceback(error.source, error.function, str(error))
        return 1
    if args.output_json:
        path = Path(args.output_json)
        try:
            path.write_text(json.dumps(found, indent=4), encoding="utf-8")
        except OSError as error:
            write(2, f"Traceback (most recent call last):\n{type(error).__name__}: {error}\n")
            return 1
    return 0

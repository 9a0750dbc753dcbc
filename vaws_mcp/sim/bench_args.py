"""The command line of ``vllm bench serve``."""

import argparse
import json
import sys
import uuid
from pathlib import Path
from typing import Any, NoReturn

from vaws_mcp.sim.serve_args import USAGE

BACKENDS = ("vllm", "openai", "openai-chat")
DATASETS = ("random", "custom")
ACCEPTED_VALUES = """
probe-request-rate sharegpt-output-len hf-name hf-subset hf-split hf-output-len prefix-repetition-prefix-len
prefix-repetition-suffix-len prefix-repetition-num-prefixes prefix-repetition-output-len random-batch-size
random-prefix-len tokenizer-mode logprobs ramp-up-strategy ramp-up-start-rps ramp-up-end-rps timeline-itl-thresholds
lora-assignment self-timed log-config-file spec-bench-output-len spec-bench-category chat-template-kwargs
"""
SWITCHES = """
trust-remote-code no-stream no-oversample skip-chat-template disable-shuffle use-beam-search disable-tqdm profile
save-result save-detailed append-result ignore-eos skip-tokenizer-init insecure plot-timeline plot-dataset-stats
"""
SAMPLING = ("top-p", "top-k", "min-p", "temperature", "frequency-penalty", "presence-penalty", "repetition-penalty")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{USAGE}vllm: error: {message}\n")
        sys.exit(2)


def _add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num-prompts", type=int, default=1000)
    parser.add_argument("--dataset-name", default="random", choices=DATASETS)
    parser.add_argument("--dataset-path")
    parser.add_argument("--custom-output-len", type=int, default=256)
    parser.add_argument("--random-input-len", type=int, default=1024)
    parser.add_argument("--random-output-len", type=int, default=128)
    parser.add_argument("--random-range-ratio", default="0.0")
    parser.add_argument("--input-len", type=int)
    parser.add_argument("--output-len", type=int)
    parser.add_argument("--request-rate", type=float, default=float("inf"))
    parser.add_argument("--burstiness", type=float, default=1.0)
    parser.add_argument("--max-concurrency", type=int)
    parser.add_argument("--num-warmups", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend", default="openai", choices=BACKENDS)
    parser.add_argument("--base-url")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--endpoint", default="/v1/completions")
    parser.add_argument("--header", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--model")
    parser.add_argument("--served-model-name")
    parser.add_argument("--tokenizer")
    parser.add_argument("--ready-check-timeout-sec", type=int, default=0)
    parser.add_argument("--extra-body", type=json.loads)
    parser.add_argument("--request-id-prefix", default=f"bench-{uuid.uuid4().hex[:8]}-")
    parser.add_argument("--lora-modules", nargs="+")
    for name in SAMPLING:
        parser.add_argument(f"--{name}", type=int if name == "top-k" else float)


def _add_result(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--label")
    parser.add_argument("--metadata", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--result-dir")
    parser.add_argument("--result-filename")
    parser.add_argument("--percentile-metrics")
    parser.add_argument("--metric-percentiles", default="99")
    parser.add_argument("--goodput", nargs="+")


def parse(words: list[str]) -> argparse.Namespace:
    """Parse the words after ``vllm bench serve``; exits 2 with vLLM's text when a flag is unknown."""
    parser = _Parser(prog="vllm bench serve")
    _add_load(parser)
    _add_target(parser)
    _add_result(parser)
    for name in ACCEPTED_VALUES.split():
        parser.add_argument(f"--{name}")
    for name in SWITCHES.split():
        parser.add_argument(f"--{name}", action="store_true")
    args, unknown = parser.parse_known_args([_dashed(word) for word in words])
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return args


def _dashed(word: str) -> str:
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value if word.startswith("--") else word


class UsageError(Exception):
    """Arguments that parse but make no sense; the real program ends with this exception and status 1."""


def check(args: argparse.Namespace) -> None:
    """Check what the real program checks after parsing.

    Raises: UsageError with the exception line of the real program.
    """
    if args.max_concurrency is not None and args.max_concurrency <= 0:
        raise UsageError("ValueError: --max-concurrency must be greater than 0")
    chat = args.backend == "openai-chat"
    suffix = "chat/completions" if chat else "completions"
    if not args.endpoint.endswith(suffix) or (not chat and args.endpoint.endswith("chat/completions")):
        api = "OpenAI Chat Completions API" if chat else "OpenAI Completions API"
        raise UsageError(f"ValueError: {api} URL must end with one of: {{'{suffix}'}}.")
    if args.dataset_name == "custom" and not args.dataset_path:
        raise UsageError("ValueError: dataset_path must be provided for loading data.")
    if args.dataset_path and not Path(args.dataset_path).exists():
        raise UsageError(f"FileNotFoundError: [Errno 2] No such file or directory: '{args.dataset_path}'")
    tokenizer = args.tokenizer or args.model
    if not args.skip_tokenizer_init and not (tokenizer and Path(tokenizer).is_dir()):
        raise UsageError(f"OSError: {tokenizer} is not a local folder and is not a valid model identifier")


def key_values(words: list[str] | None) -> dict[str, str]:
    """Split ``KEY=VALUE`` words.

    Raises: UsageError for a word without an equals sign.
    """
    pairs: dict[str, str] = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError("ValueError: Invalid metadata format. Please use KEY=VALUE format.")
        pairs[key.strip()] = value.strip()
    return pairs


def sampling(args: argparse.Namespace) -> dict[str, Any]:
    """Return the sampling parameters that were given, by their names in the API."""
    names = [name.replace("-", "_") for name in SAMPLING]
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}

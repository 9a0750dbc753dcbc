"""The command line of ``vllm serve``: the flags the simulation acts on and the many it only accepts."""

import argparse
import json
import re
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - the real program binds everywhere by default
USAGE = """usage: vllm [-h] [-v]
            {chat,complete,serve,launch,bench,collect-env,download-kernels,preload,run-batch,snapshot}
            ...
"""
VALUES = """
additional-config allowed-headers allowed-methods allowed-origins api-key api-server-count attention-backend
attention-config block-size chat-template chat-template-content-format code-revision collect-detailed-traces
compilation-config config config-format convert cp-kv-cache-interleave-size cpu-offload-gb data-parallel-address
data-parallel-backend data-parallel-rank data-parallel-rpc-port data-parallel-size-local data-parallel-start-rank
decode-context-parallel-size default-chat-template-kwargs distributed-executor-backend download-dir dtype
ec-transfer-config eplb-config expert-placement-strategy generation-config gpu-memory-utilization h11-max-header-count
hf-config-path hf-overrides hf-token ignore-patterns io-processor-plugin kernel-config kv-cache-dtype
kv-cache-memory-bytes kv-cache-metrics-sample kv-events-config kv-offloading-backend kv-offloading-size
kv-transfer-config limit-mm-per-prompt load-format log-config-file logits-processors logprobs-mode
long-prefill-token-threshold lora-dtype mamba-block-size mamba-cache-dtype mamba-ssm-cache-dtype master-addr
master-port max-cpu-loras max-log-len max-logprobs max-lora-rank max-loras max-long-partial-prefills
max-num-batched-tokens max-num-partial-prefills max-parallel-loading-workers media-io-kwargs middleware
mm-encoder-tp-mode mm-processor-cache-gb mm-processor-cache-type mm-processor-kwargs model-impl
model-loader-extra-config nnodes node-rank num-gpu-blocks-override num-lookahead-slots optimization-level
otlp-traces-endpoint override-attention-dtype override-generation-config override-pooler-config performance-mode
pipeline-parallel-size pooler-config prefill-context-parallel-size prefix-caching-hash-algo pt-load-map-location
quantization reasoning-parser reasoning-config response-role revision root-path runner scheduler-cls scheduling-policy
seed speculative-config ssl-ca-certs ssl-cert-reqs ssl-certfile ssl-keyfile structured-outputs-config swap-space task
tokenizer tokenizer-mode tokenizer-revision tool-call-parser tool-parser-plugin tool-server uds uvicorn-log-level
video-pruning-rate weight-transfer-config worker-cls worker-extension-cls
"""
SWITCHES = """
allow-credentials async-scheduling calculate-kv-scales data-parallel-external-lb data-parallel-hybrid-lb
disable-access-log-for-endpoints disable-cascade-attn disable-chunked-mm-input disable-custom-all-reduce
disable-fastapi-docs disable-frontend-multiprocessing disable-hybrid-kv-cache-manager disable-log-requests
disable-log-stats disable-nccl-for-dp-synchronization disable-sliding-window disable-uvicorn-access-log
enable-auto-tool-choice enable-chunked-prefill enable-dbo enable-elastic-ep enable-eplb enable-expert-parallel
enable-force-include-usage enable-layerwise-nvtx-tracing enable-log-outputs enable-log-requests enable-lora
enable-mfu-metrics enable-mm-embeds enable-multimodal enable-offline-docs enable-prefix-caching enable-prompt-embeds
enable-prompt-tokens-details enable-request-id-headers enable-return-routed-experts enable-scale-out
enable-server-load-tracking enable-sleep-mode enable-ssl-refresh enable-tokenizer-info-endpoint enforce-eager
exclude-tools-when-tool-choice-none fully-sharded-loras headless interleave-mm-strings kv-cache-metrics
language-model-only log-error-stack multi-step-stream-outputs return-tokens-as-token-ids skip-mm-profiling
skip-tokenizer-init tokens-only trust-remote-code trust-request-chat-template use-tqdm-on-load
"""
SHORT = {
    "tensor-parallel-size": "-tp",
    "data-parallel-size": "-dp",
    "data-parallel-size-local": "-dpl",
    "data-parallel-rank": "-dpn",
    "data-parallel-address": "-dpa",
    "decode-context-parallel-size": "-dcp",
    "pipeline-parallel-size": "-pp",
    "quantization": "-q",
    "attention-config": "-ac",
    "compilation-config": "-cc",
    "speculative-config": "-sc",
    "nnodes": "-n",
    "node-rank": "-r",
}


SECRET = ("api_key", "hf_token")


@dataclass(frozen=True)
class ServeArgs:
    """The flags of ``vllm serve`` that change what the simulation does."""

    model: str
    host: str
    port: int
    served: tuple[str, ...]
    tp: int
    dp: int
    pp: int
    max_model_len: int | None
    max_num_seqs: int
    draft_tokens: int
    eager: bool
    access_log: bool
    given: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        """The flags that were given, without secrets."""
        return {name: "***" if name in SECRET else value for name, value in self.given.items()}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{USAGE}vllm: error: {message}\n")
        sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="vllm serve", add_help=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--model")
    parser.add_argument("--host")
    for name in ("port", "tensor-parallel-size", "data-parallel-size", "max-num-seqs"):
        parser.add_argument(*filter(None, (f"--{name}", SHORT.get(name))), type=int)
    parser.add_argument("--max-model-len", type=_length)
    parser.add_argument("--served-model-name", nargs="+")
    for name in ("lora-modules", "cudagraph-capture-sizes", "limit-mm-types"):
        parser.add_argument(f"--{name}", nargs="+")
    for name in VALUES.split():
        parser.add_argument(*filter(None, (f"--{name}", SHORT.get(name))))
    for name in SWITCHES.split():
        parser.add_argument(f"--{name}", action=argparse.BooleanOptionalAction)
    return parser


def _length(text: str) -> int:
    scale = {"k": 1000, "m": 1000_000, "K": 1024, "M": 1024**2}.get(text[-1:], 1)
    return int(float(text.rstrip("kmKM")) * scale)


def _normalise(words: list[str]) -> list[str]:
    """Write flags with dashes, and drop what sets one field of a nested configuration (``--a.b c``, ``-O3``)."""
    result: list[str] = []
    skip = False
    for index, word in enumerate(words):
        if skip:
            skip = False
            continue
        flag, equals, value = word.partition("=")
        if re.match(r"--?[a-z]+[a-z_-]*\.[\w.]+\+?$", flag):
            following = words[index + 1 : index + 2]
            skip = not equals and bool(following) and not following[0].startswith("--")
        elif re.fullmatch(r"-O\d?", word):
            skip = word == "-O"
        elif flag.startswith("--"):
            result.append(flag.replace("_", "-") + equals + value)
        else:
            result.append(word)
    return result


def _draft_tokens(parser: argparse.ArgumentParser, text: str | None) -> int:
    if text is None:
        return 0
    try:
        return int(json.loads(text).get("num_speculative_tokens", 1))
    except (ValueError, AttributeError, TypeError):
        parser.error(f"argument --speculative-config/-sc: Value {text} cannot be converted to <function loads>.")


def parse(words: list[str]) -> ServeArgs:
    """Parse the words after ``vllm serve``; exits 2 with vLLM's text when a flag is unknown."""
    parser = _parser()
    given, unknown = parser.parse_known_args(_normalise(words))
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    values: dict[str, Any] = vars(given)
    model = values.get("model_tag") or values.get("model") or "Qwen/Qwen3-0.6B"
    return ServeArgs(
        model=model,
        host=values.get("host", ALL_ADDRESSES),
        port=values.get("port", 8000),
        served=tuple(values.get("served_model_name") or (model,)),
        tp=values.get("tensor_parallel_size", 1),
        dp=values.get("data_parallel_size", 1),
        pp=int(values.get("pipeline_parallel_size", 1)),
        max_model_len=values.get("max_model_len"),
        max_num_seqs=values.get("max_num_seqs", 256),
        draft_tokens=_draft_tokens(parser, values.get("speculative_config")),
        eager=bool(values.get("enforce_eager")),
        access_log=not values.get("disable_uvicorn_access_log"),
        given=values,
    )

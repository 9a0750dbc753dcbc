"""Builds the tiny random Qwen2 that the live tests serve. Run it with the Python of the vLLM environment.

Usage: `build_tiny_model.py DIRECTORY`. The weights come from seed 0 and the tokenizer from the standard library's
sources, so two builds with one environment give the same model.
"""

# The imported libraries exist only in the vLLM environment, where the type checker does not look.
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

SEED = 0
# `vllm bench` draws token ids up to 9999 for random prompts, so the vocabulary must be larger than that.
VOCABULARY_SIZE = 10240
END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def training_texts() -> Iterator[str]:
    """Yield the sources of the standard library's top-level modules, in order of their names."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        yield path.read_text(encoding="utf-8", errors="replace")


def build_tokenizer(directory: Path) -> None:
    """Train a byte-level BPE of `VOCABULARY_SIZE` tokens and save it with the chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_texts(), trainer)
    if tokenizer.get_vocab_size() != VOCABULARY_SIZE:
        raise SystemExit(f"tokenizer has {tokenizer.get_vocab_size()} tokens instead of {VOCABULARY_SIZE}")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=TURN_END, pad_token=END_OF_TEXT)
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(directory)


def build_weights(directory: Path) -> None:
    """Save a two-layer Qwen2 with random weights from `SEED`, in bfloat16."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(SEED)
    configuration = Qwen2Config(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=0,
    )
    Qwen2ForCausalLM(configuration).to(torch.bfloat16).save_pretrained(directory)


def main() -> None:
    """Build tokenizer and weights in the directory named on the command line."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    build_tokenizer(directory)
    build_weights(directory)


if __name__ == "__main__":
    main()

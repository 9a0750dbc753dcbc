"""The files of the simulated container: programs, model, repositories and home directory."""

import json
import os
import sys
from pathlib import Path

from vaws_mcp.sim.repositories import ASCEND_HISTORY, VLLM_HISTORY, create_repository

PACKAGE_PARENT = str(Path(__file__).parents[2])
MAX_SHEBANG = 120
MODEL_NAME = "sim-model"
MODEL_CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
    "vocab_size": 152064,
}
CHAT_TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
MODEL_FILES = {
    "config.json": MODEL_CONFIG,
    "generation_config.json": {"eos_token_id": 151645, "temperature": 0.7, "top_p": 0.8},
    "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer", "chat_template": CHAT_TEMPLATE},
    "tokenizer.json": {"version": "1.0", "model": {"type": "BPE", "vocab": {}, "merges": []}},
    "model.safetensors.index.json": {"metadata": {"total_size": 15231233024}, "weight_map": {}},
}
GIT_CONFIG = "[user]\n\tname = Sim User\n\temail = user@example.invalid\n[init]\n\tdefaultBranch = main\n"


def _script(module: str) -> str:
    """Return a Python program; a path too long or odd for a shebang line is started by way of the shell."""
    python = sys.executable
    if len(python) < MAX_SHEBANG and not any(character.isspace() for character in python):
        head = f"#!{python}\n"
    else:
        quoted = "'" + python.replace("'", "'\"'\"'") + "'"
        head = f"#!/bin/sh\n'''exec' {quoted} \"$0\" \"$@\"\n' '''\n"
    body = f"import sys\n\nsys.path.append({PACKAGE_PARENT!r})\nfrom vaws_mcp.sim.{module} import main\n\n"
    return f"{head}{body}sys.exit(main())\n"


def _write_program(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    draft.chmod(0o755)
    draft.replace(path)


def _write_model(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in MODEL_FILES.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (folder / "model-00001-of-00001.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")


def _link(path: Path, target: str) -> None:
    if path.is_symlink():
        path.unlink()
    path.symlink_to(target)


def build_sandbox(root: Path) -> None:
    """Create the sandbox, or refresh one that exists; its repositories, logs and counters are kept.

    Raises: RuntimeError or FileNotFoundError when git is missing or fails.
    """
    for name in ("bin", "root", "leases", "devices", "git", "vllm-workspace", "tmp", "models"):
        (root / name).mkdir(parents=True, exist_ok=True)
    _write_program(root / "bin" / "npu-smi", _script("npu_smi"))
    _write_program(root / "bin" / "vllm", _script("vllm_cli"))
    for name in ("python3", "python"):
        _link(root / "bin" / name, os.path.realpath(sys.executable))
    _write_model(root / "models" / MODEL_NAME)
    (root / "root" / ".gitconfig").write_text(GIT_CONFIG, encoding="utf-8")
    for name, history in (("vllm", VLLM_HISTORY), ("vllm-ascend", ASCEND_HISTORY)):
        create_repository(root / "git" / f"{name}.git", root / "vllm-workspace" / name, history)

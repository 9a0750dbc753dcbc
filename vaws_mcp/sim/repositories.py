"""The git repositories of the sandbox: small stand-ins for vllm and vllm-ascend with a fixed history.

Each history is written with ``git fast-import``, with fixed authors and dates, so commit ids are the same everywhere.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

AUTHOR = "Sim Author <sim@example.invalid>"
FIRST_DATE = 1767225600
GIT_TIMEOUT_S = 30.0
PULL_NUMBER = 12


@dataclass(frozen=True)
class Commit:
    """One commit of a history: the ref it moves, its parent's ref (None for the first) and the files it writes."""

    ref: str
    parent: str | None
    message: str
    files: Mapping[str, str]


def _speed(**values: object) -> str:
    defaults: dict[str, object] = {"decode_scale": 1.0, "prefill_scale": 1.0, "acceptance": 0.7}
    return json.dumps(defaults | values, indent=2) + "\n"


SPEED_FILE = "vllm_ascend/simulation.json"
ATTENTION = '''"""Attention backend of the stand-in tree."""

BLOCK_SIZE = 128


def num_blocks(tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return -(-tokens // BLOCK_SIZE)
'''
KERNEL = """// Stand-in for a custom operator.
extern "C" int add_rms_norm_tiling(int rows, int cols) {
    return rows * cols / 64;
}
"""
ASCEND_FILES = {
    "README.md": "# vllm-ascend (simulated)\n\nA stand-in tree. `vllm_ascend/simulation.json` holds its speed.\n",
    "setup.py": 'from setuptools import setup\n\nsetup(name="vllm_ascend", version="0.32.0")\n',
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\n',
    "requirements.txt": "numpy\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(vllm_ascend_C)\n",
    "csrc/kernels/add_rms_norm.cpp": KERNEL,
    "vllm_ascend/__init__.py": 'def register() -> str:\n    return "vllm_ascend.platform.NPUPlatform"\n',
    "vllm_ascend/envs.py": 'import os\n\nSOC_VERSION = os.getenv("SOC_VERSION", "")\n',
    "vllm_ascend/attention/__init__.py": "",
    "vllm_ascend/attention/attention_v1.py": ATTENTION,
    SPEED_FILE: _speed(),
}
ASCEND_HISTORY = (
    Commit("refs/heads/main", None, "Add the Ascend platform plugin", ASCEND_FILES),
    Commit(
        "refs/heads/main",
        "refs/heads/main",
        "[Attention] Name the block size in the log",
        {"vllm_ascend/attention/attention_v1.py": ATTENTION + "\n\nprint_block_size = BLOCK_SIZE\n"},
    ),
    Commit(
        "refs/heads/slow-decode",
        "refs/heads/main",
        "[Attention] Synchronise after every decode step",
        {
            SPEED_FILE: _speed(decode_scale=1.1),
            "vllm_ascend/attention/attention_v1.py": ATTENTION + "\n\nSYNCHRONISE = True\n",
        },
    ),
    Commit(
        "refs/heads/native-change",
        "refs/heads/main",
        "[Kernel] Change the tiling of add_rms_norm",
        {"csrc/kernels/add_rms_norm.cpp": KERNEL.replace("64", "128")},
    ),
    Commit(
        f"refs/pull/{PULL_NUMBER}/head",
        "refs/heads/main",
        "[Attention] Overlap the decode step with the copy",
        {SPEED_FILE: _speed(decode_scale=0.95)},
    ),
)
VLLM_FILES = {
    "README.md": "# vllm (simulated)\n\nA stand-in tree.\n",
    "setup.py": 'from setuptools import setup\n\nsetup(name="vllm", version="0.32.0")\n',
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\n',
    "requirements/common.txt": "numpy\n",
    "csrc/ops.h": "#pragma once\n",
    "vllm/__init__.py": '__version__ = "0.32.0"\n',
    "vllm/v1/core/scheduler.py": "class Scheduler:\n    max_num_seqs = 256\n",
}
VLLM_HISTORY = (
    Commit("refs/heads/main", None, "Add the engine", VLLM_FILES),
    Commit(
        "refs/heads/main",
        "refs/heads/main",
        "[Core] Document the scheduler",
        {"vllm/v1/core/scheduler.py": "class Scheduler:\n    # First come, first served.\n    max_num_seqs = 256\n"},
    ),
    Commit(
        "refs/heads/scheduler-experiment",
        "refs/heads/main",
        "[Core] Try a smaller batch",
        {"vllm/v1/core/scheduler.py": "class Scheduler:\n    max_num_seqs = 128\n"},
    ),
    Commit(
        f"refs/pull/{PULL_NUMBER}/head",
        "refs/heads/main",
        "[Docs] Mention the scheduler",
        {"README.md": "# vllm (simulated)\n\nA stand-in tree with a scheduler.\n"},
    ),
)


def _stream(history: tuple[Commit, ...]) -> bytes:
    parts: list[bytes] = []
    tips: dict[str, int] = {}
    for index, commit in enumerate(history):
        stamp = f"{AUTHOR} {FIRST_DATE + index * 3600} +0000"
        message = commit.message.encode()
        head = f"commit {commit.ref}\nmark :{index + 1}\nauthor {stamp}\ncommitter {stamp}\n"
        parts.append(head.encode() + f"data {len(message)}\n".encode() + message + b"\n")
        if commit.parent:
            parts.append(f"from :{tips[commit.parent]}\n".encode())
        for path, content in commit.files.items():
            data = content.encode()
            parts.append(f"M 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n")
        tips[commit.ref] = index + 1
    return b"".join(parts)


def _git(arguments: list[str], stdin: bytes = b"") -> None:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "GIT_CONFIG_GLOBAL": os.devnull, "LANG": "C.UTF-8"}
    environment |= {"GIT_CONFIG_SYSTEM": os.devnull, "HOME": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    answer = subprocess.run(
        ["git", *arguments], input=stdin, env=environment, capture_output=True, timeout=GIT_TIMEOUT_S, check=False
    )
    if answer.returncode:
        raise RuntimeError(f"git {arguments[0]} failed: {answer.stderr.decode('utf-8', 'replace').strip()}")


def create_repository(origin: Path, clone: Path, history: tuple[Commit, ...]) -> None:
    """Create a bare origin with the history, and a clone of it with every branch; an existing clone is left alone.

    Raises: RuntimeError when git fails, FileNotFoundError when there is no git.
    """
    if (clone / ".git").exists():
        return
    _git(["init", "--quiet", "--bare", "--initial-branch=main", str(origin)])
    _git(["-C", str(origin), "fast-import", "--quiet"], _stream(history))
    _git(["clone", "--quiet", str(origin), str(clone)])
    for ref in sorted({commit.ref for commit in history}):
        name = ref.removeprefix("refs/heads/")
        if ref.startswith("refs/heads/") and name != "main":
            _git(["-C", str(clone), "branch", "--quiet", "--track", name, f"origin/{name}"])

"""What never travels with a source tree: what a build leaves for its own machine, and files that hold secrets.

A denied path counts as its last commit has it: what is not committed is left out, and is no change either.
Source: the outputs of vllm-ascend's and vLLM's ``setup.py`` and CMake files, and of Python tools.
"""

from __future__ import annotations

import fnmatch
import re
from typing import List, Tuple

NAMES: Tuple[str, ...] = (
    "*.so",
    "*.so.*",
    "*.o",
    "*.a",
    "*.pyc",
    "*.pyo",
    "*.egg-info",
    "__pycache__",
    ".venv",
    "venv",
    "_build_info.py",
    "_cann_ops_custom",
    "CMakeCache.txt",
    "CMakeFiles",
    ".deps",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".vaws-local",
    ".env",
    ".env.*",
    ".netrc",
    ".pypirc",
    "*.pem",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
)
"""Globs of names, denied at any depth; a denied directory takes what is in it along."""

TOP: Tuple[str, ...] = (
    "build",
    "dist",
    "output",
    "csrc/build",
    "csrc/output",
    "vllm_ascend/_version.py",
    "vllm/_version.py",
)
"""Paths below the top of a tree."""

_name = re.compile("|".join(fnmatch.translate(name) for name in NAMES))


def is_denied(path: str) -> bool:
    """Tell whether a path, relative to the top of its tree, never travels."""
    parts = path.rstrip("/").split("/")
    if any(_name.match(part) for part in parts):
        return True
    return any(path == top or path.startswith(top + "/") for top in TOP)


def patterns() -> List[str]:
    """Return the whole list as a person would write it."""
    return [*NAMES, *(f"/{top}" for top in TOP)]

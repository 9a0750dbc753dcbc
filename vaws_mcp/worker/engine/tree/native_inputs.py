"""What the compiled parts of a tree are built from, and whether they have been built since it last changed.

Source: ``setup.py``, CMake files and ``.gitmodules`` of vllm-ascend, which imports two of its own modules while it is
built; the same of vLLM, of which nothing is compiled for Ascend.
"""

from __future__ import annotations

import glob
import json
import os
import time
from typing import Any, Dict, List, Optional, Tuple

from ...supervisor.trees import git_dir_of
from ..atomic import replace_file
from .git import Git
from .snapshot import Change, Snapshot, differences

INPUTS: Dict[str, Tuple[str, ...]] = {
    "vllm_ascend": (
        "csrc",
        "cmake",
        "CMakeLists.txt",
        "setup.py",
        "pyproject.toml",
        "requirements.txt",
        ".gitmodules",
        "vllm_ascend/envs.py",
        "vllm_ascend/device/hardware.py",
    ),
    "vllm": ("csrc", "cmake", "CMakeLists.txt", "setup.py", "pyproject.toml", "requirements", ".gitmodules"),
}
"""Files and directories by the package that a tree holds. Submodules below them count by their commit."""

VARIABLES: Tuple[str, ...] = (
    "SOC_VERSION",
    "ASCEND_HOME_PATH",
    "COMPILE_CUSTOM_KERNELS",
    "VLLM_BATCH_INVARIANT",
    "VLLM_ASCEND_ENABLE_BATCH_MEMCPY",
    "CMAKE_BUILD_TYPE",
)
"""Variables that the build reads."""

REBUILD: Tuple[Tuple[str, str], ...] = (
    ("csrc", "the custom operators and kernels"),
    ("cmake", "the custom operators and kernels"),
    ("CMakeLists.txt", "the custom operators and kernels"),
    (".gitmodules", "the custom operators and kernels"),
    ("", "the editable installation"),
)
"""What a changed input makes stale; the first prefix that fits counts."""

_OUTPUTS = ("vllm_ascend/*.so", "vllm_ascend/_build_info.py", "vllm/*.so")
_NOTE = "vaws-native.json"
_MOST_NAMED = 200


def kind_of(top: str) -> str:
    """Return which package a tree holds."""
    return "vllm_ascend" if os.path.isdir(os.path.join(top, "vllm_ascend")) else "vllm"


def is_input(path: str, kind: Optional[str] = None) -> bool:
    """Tell whether a path is a native input, of any package when no kind is given."""
    kinds = INPUTS.values() if kind is None else [INPUTS[kind]]
    return any(path == one or path.startswith(one + "/") for inputs in kinds for one in inputs)


def filtered(changes: List[Change]) -> List[str]:
    """Return the native inputs among changed paths."""
    return [change.path for change in changes if is_input(change.path)]


def to_rebuild(paths: List[str]) -> List[str]:
    """Return what changed inputs make stale."""
    found: List[str] = []
    for path in paths:
        what = next(text for prefix, text in REBUILD if not prefix or (path + "/").startswith(prefix + "/"))
        if what not in found:
            found.append(what)
    return found


def pending_rebuild(top: str) -> Optional[Dict[str, Any]]:
    """Return {since, inputs, rebuild} when native inputs were changed by us and nothing was built since, else None."""
    note = _read(top)
    if note is None or _built_after(top, note["since"]):
        return None
    return {"since": note["since"], "inputs": note["inputs"], "rebuild": to_rebuild(note["inputs"])}


def note_pending(git: Git, before: Snapshot, changed: List[str]) -> Optional[Dict[str, Any]]:
    """Remember from which state on the built parts no longer fit; forget it when the inputs are back at that state."""
    top, pending = git.top, pending_rebuild(git.top)
    note = _read(top) if pending else None
    if note is None and not changed:
        return None
    base = note["base"] if note else before.tree
    now = git.text("rev-parse", "HEAD^{tree}")
    if git.run("cat-file", "-e", base).code == 0:
        inputs = filtered(differences(git, base, now))
    else:
        inputs = sorted({*(note["inputs"] if note else []), *changed})
    path = _path(top)
    if inputs:
        fresh = {"since": note["since"] if note else time.time(), "base": base, "inputs": inputs[:_MOST_NAMED]}
        replace_file(path, json.dumps(fresh).encode(), mode=0o644)
    elif os.path.exists(path):
        os.unlink(path)
    return pending_rebuild(top)


def _path(top: str) -> str:
    return os.path.join(git_dir_of(top), _NOTE)


def _read(top: str) -> Optional[Dict[str, Any]]:
    try:
        with open(_path(top), encoding="utf-8") as stream:
            note: Any = json.load(stream)
        return {
            "since": float(note["since"]),
            "base": str(note["base"]),
            "inputs": [str(one) for one in note["inputs"]],
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _built_after(top: str, since: float) -> bool:
    for pattern in _OUTPUTS:
        for path in glob.glob(os.path.join(glob.escape(top), pattern)):
            try:
                if os.stat(path).st_mtime > since:
                    return True
            except OSError:
                continue
    return False

"""What the worker's ``context`` says about an image that has a profile wholly."""

from __future__ import annotations

from typing import Any

from vaws_mcp.presets.runtimes import RuntimeProfile, load_profile

SHA = "72dc68973bd7e6ceef9a122de316a7ee9c9a84aa"
REPO = "/vllm-workspace/vllm-ascend"
PYTHON = "/usr/local/python3.11/bin/python3"
Facts = dict[str, Any]


def version(text: str) -> Facts:
    return {"version": text}


def tree(commit: str = SHA, changes: int = 0) -> Facts:
    return {"path": REPO, "commit": commit, "branch": None, "dirty": changes > 0, "changes": changes}


def image() -> Facts:
    """The image of v0.18.0-cann8.5.1."""
    ascend = {**version("0.1.dev1+g72dc68973.d20260729"), "editable": REPO}
    vllm_repo = {"path": "/vllm-workspace/vllm", "commit": "a" * 40, "branch": None, "dirty": False, "changes": 0}
    return {
        "environment": {"source": "cached", "from": "cann", "scripts": [], "cxx_abi": 1, "cxx_abi_from": "torch"},
        "cann": {name: version("8.5.1") for name in ("toolkit", "operators", "nnal")} | {"driver": version("25.2.0")},
        "python": {**version("3.11.14"), "executable": PYTHON},
        "packages": {
            "torch": version("2.9.0+cpu"),
            "torch-npu": version("2.9.0"),
            "triton-ascend": version("3.2.0.dev20260322"),
            "vllm": version("0.18.0+empty"),
            "vllm-ascend": ascend,
            "transformers": version("5.1.0"),
        },
        "repos": {"vllm": vllm_repo, "vllm_ascend": tree()},
        "editable": {"vllm-ascend": tree()},
    }


def shipped() -> RuntimeProfile:
    return load_profile("v0.18.0-cann8.5.1")

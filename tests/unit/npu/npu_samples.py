"""The recorded samples of npu-smi, where they are there, and what is expected of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[3].parent / "shared" / "fixtures" / "npu_smi"
EXPECTED: dict[str, dict[str, Any]] = (
    json.loads((FOLDER / "expected.json").read_text(encoding="utf-8")) if FOLDER.is_dir() else {}
)
NAMES = sorted(EXPECTED)
needs_samples = pytest.mark.skipif(not EXPECTED, reason="the recorded samples are not in this checkout")


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.txt"


def text_of(name: str) -> str:
    return path_of(name).read_bytes().decode("utf-8")


def differences(name: str, answer: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Fields of an answer that differ from the expected ones; fields beyond those of a device are left aside."""
    found: dict[str, tuple[Any, Any]] = {}
    for field, wanted in EXPECTED[name].items():
        got = answer.get(field)
        if field == "devices" and len(got or ()) == len(wanted):
            got = [{key: one[key] for key in two} for one, two in zip(got or (), wanted, strict=True)]
        if field != "note" and got != wanted:
            found[field] = (got, wanted)
    return found

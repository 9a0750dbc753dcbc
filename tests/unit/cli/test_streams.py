"""Closed streams and readers that leave early end a command quietly, never with a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("words", [["task-list"], ["--help"], ["nope"]])
@pytest.mark.parametrize("tail", ["| true", ">&-", "2>&-"])
def test_no_traceback_when_a_stream_is_gone(words: list[str], tail: str, tmp_path: Path) -> None:
    script = f'(sleep 0.2; exec "$@") {tail}' if "|" in tail else f'exec "$@" {tail}'
    done = subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-m", "vaws_mcp", *words],
        capture_output=True,
        env={**os.environ, "VAWS_STATE_DIR": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr

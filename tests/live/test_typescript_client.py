"""A client of the official TypeScript SDK gives up after 60 s a request; by following the hints it still gets there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.live, pytest.mark.slow]

HERE = Path(__file__).parent / "typescript"
HOW = f"npm install --prefix {os.path.relpath(HERE)}"
SECONDS = int(os.environ.get("VAWS_TYPESCRIPT_SECONDS", "75"))
TPOT_MS = 20.0


def sdk_folder() -> Path:
    """Return the folder with the SDK, or skip with the way to get it."""
    folder = Path(os.environ.get("VAWS_TYPESCRIPT_SDK", str(HERE)))
    if shutil.which("node") is None:
        pytest.skip("node is not installed: apt-get install nodejs npm")
    if not (folder / "node_modules" / "@modelcontextprotocol" / "sdk").is_dir():
        pytest.skip(f"the TypeScript SDK is not installed: {HOW}")
    return folder


def remote_dev(state_dir: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "vaws_mcp", *words],
        env={**os.environ, "VAWS_STATE_DIR": str(state_dir)},
        capture_output=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.timeout(SECONDS + 300)
def test_a_typescript_client_with_default_limits_completes_a_long_comparison(tmp_path: Path) -> None:
    folder = sdk_folder()
    quiet = ("--noise-run", "0", "--noise-launch", "0", "--drift", "0", "--load-seconds", "0.2")
    facts = remote_dev(tmp_path, "sim-start", "--detach", "--tpot-ms", str(TPOT_MS), *quiet)
    try:
        task = remote_dev(tmp_path, "task-create", "typescript", "--endpoint", "sim")
        # Two states, one iteration each: a trial request, then all requests at once; each lasts for its tokens.
        tokens = round(SECONDS / 4 / (TPOT_MS / 1000))
        arguments = {
            "context_file": task["context_file"],
            "model": facts["model"],
            "state": ["baseline=main", "candidate=slow-decode"],
            "runs": 1,
            "warmup_runs": 0,
            "bench_args": f"--dataset-name random --random-input-len 16 --random-output-len {tokens} "
            "--num-prompts 2 --max-concurrency 2 --ignore-eos",
        }
        done = subprocess.run(
            ["node", str(HERE / "follow_hints.mjs"), str(folder), sys.executable, json.dumps(arguments)],
            env={**os.environ, "VAWS_STATE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=SECONDS + 200,
            check=False,
        )
    finally:
        remote_dev(tmp_path, "sim-stop")
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    print({name: report[name] for name in ("calls", "longest_ms", "total_ms")})
    assert report["answer"]["outcome"] == "success", report["answer"]
    assert 7 < report["answer"]["comparison"][1]["delta_tpot_pct_vs_first"] < 13
    assert report["total_ms"] > 60_000
    assert report["longest_ms"] < 60_000
    assert report["calls"] >= 2

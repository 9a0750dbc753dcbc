"""Time from spawning our server to its answer to `initialize`, against a bare server of the SDK with as many tools.

Both are started by the same interpreter with compiled modules, in turn (A B A B ...). A raw JSON client measures:
spawn to the answer of `initialize`, from there to the answer of `tools/list`, and the largest resident size.

    uv run python perf/startup.py [--spawns 25]
"""

import argparse
import compileall
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BAR = 1.2
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "perf", "version": "1"},
}


def main() -> int:
    """Measure and print; exit 1 when the ratio of medians is over the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spawns", type=int, default=25, help="Spawns of each server (default: 25).")
    spawns = parser.parse_args().spawns
    compile_everything()
    tools = len(measure([sys.executable, "-m", "vaws_mcp", "mcp"])["tools"])
    ours, bare = [sys.executable, "-m", "vaws_mcp", "mcp"], [sys.executable, str(HERE / "bare_server.py"), str(tools)]
    measure(bare)
    samples: dict[str, list[dict[str, Any]]] = {"ours": [], "bare": []}
    for _ in range(spawns):
        samples["ours"].append(measure(ours))
        samples["bare"].append(measure(bare))
    print(f"{spawns} alternating spawns, {tools} tools each, Python {sys.version.split()[0]}")
    print(f"{'':26}{'ours':>18}{'bare MCPServer':>18}{'ratio':>8}")
    ratios = [row(name, unit, samples) for name, unit in (("initialize", "ms"), ("tools/list", "ms"), ("both", "ms"))]
    row("memory", "MB", samples)
    print(f"bar: initialize <= {BAR} x bare: {'met' if ratios[0] <= BAR else 'NOT MET'}")
    return 0 if ratios[0] <= BAR else 1


def row(name: str, unit: str, samples: dict[str, list[dict[str, Any]]]) -> float:
    """Print median (min) of both sides and the ratio of the medians."""
    values = {side: [sample[name] for sample in found] for side, found in samples.items()}
    middle = {side: statistics.median(found) for side, found in values.items()}
    cells = "".join(f"{middle[side]:9.1f} ({min(values[side]):6.1f})" for side in ("ours", "bare"))
    ratio = middle["ours"] / middle["bare"]
    print(f"{f'{name} {unit}, median (min)':26}{cells}{ratio:8.2f}")
    return ratio


def compile_everything() -> None:
    """Compile the package and its libraries, so that no spawn pays for it."""
    import mcp

    import vaws_mcp

    for module in (vaws_mcp, mcp):
        compileall.compile_dir(str(Path(str(module.__file__)).parent), quiet=2)
    compileall.compile_dir(str(Path(str(mcp.__file__)).parents[1]), quiet=2, workers=1)


def measure(command: list[str]) -> dict[str, Any]:
    """Start a server, initialize it, list its tools and end it."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "VAWS_STATE_DIR": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env, cwd=folder
        )
        try:
            ask(process, 1, "initialize", INITIALIZE)
            ready = time.perf_counter()
            send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            listed = ask(process, 2, "tools/list", {})
            done = time.perf_counter()
            memory = peak_mb(process.pid)
        finally:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(10)
            assert process.stdout is not None
            process.stdout.close()
    return {
        "initialize": (ready - begin) * 1000,
        "tools/list": (done - ready) * 1000,
        "both": (done - begin) * 1000,
        "memory": memory,
        "tools": listed["tools"],
    }


def send(process: "subprocess.Popen[bytes]", message: dict[str, Any]) -> None:
    """Write one JSON-RPC message."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def ask(process: "subprocess.Popen[bytes]", number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request and return its result."""
    send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert process.stdout is not None
    while True:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{process.args} ended without an answer to {method}")
        answer = json.loads(line)
        if answer.get("id") == number:
            return answer["result"]


def peak_mb(pid: int) -> float:
    """Return the largest resident size so far, in MB; 0 where /proc does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


if __name__ == "__main__":
    sys.exit(main())

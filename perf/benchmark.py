"""What `bench_compare` adds to the services and clients that it runs: wall time of a whole run against their sum.

The same services and clients are run by hand, one after the other, with the commands that the run itself used: start,
wait until /health answers, client, client, stop. By hand nothing is checked out, probed, recorded or reported.

    uv run python perf/benchmark.py [--rounds 4] [--runs 3] [--prompts 40] [--load-seconds 3]
"""

import argparse
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SHARE, EACH_S = 0.03, 2.0
BOUND_S = 900.0
COMMAND = [sys.executable, "-m", "vaws_mcp"]


def main() -> int:
    """Measure and print; exit 1 when the bar is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4, help="Launches of each of the two states (default: 4).")
    parser.add_argument("--runs", type=int, default=3, help="Clients a launch (default: 3).")
    parser.add_argument("--prompts", type=int, default=40, help="Requests of a client (default: 40).")
    parser.add_argument("--load-seconds", type=float, default=3.0, help="Loading of the model (default: 3).")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vaws-perf-") as folder:
        env = {**os.environ, "VAWS_STATE_DIR": str(Path(folder) / "state")}
        facts = call(env, "sim-start", "--detach", "--load-seconds", str(given.load_seconds), "--tpot-ms", "10")
        try:
            ours, launches = compared(env, facts, given)
            hand = sum(by_hand(facts, launch) for launch in launches)
        finally:
            call(env, "sim-stop")
    allowed = hand * (1 + SHARE) + EACH_S * len(launches)
    print(f"{len(launches)} launches with {given.runs} clients each")
    print(f"{'bench_compare':24}{ours:9.1f} s")
    print(f"{'the same by hand':24}{hand:9.1f} s")
    print(f"{'added':24}{ours - hand:9.1f} s, {(ours - hand) / len(launches):.2f} s a launch")
    met = ours <= allowed
    print(f"bar: <= {SHARE:.0%} + {EACH_S:.0f} s a launch = {allowed:.1f} s: {'met' if met else 'NOT MET'}")
    return 0 if met else 1


def call(env: dict[str, str], *words: str) -> dict[str, Any]:
    """Run a command and return its answer."""
    done = subprocess.run(
        [*COMMAND, *words],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"{words[0]} ended with {done.returncode}: {done.stdout[-2000:]} {done.stderr[-500:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def compared(
    env: dict[str, str], facts: dict[str, Any], given: argparse.Namespace
) -> tuple[float, list[dict[str, Any]]]:
    """Run the comparison; return its wall time with the process of the call, and its launches."""
    task = call(env, "task-create", "perf", "--endpoint", "sim")
    load = f"--dataset-name random --random-input-len 64 --random-output-len 32 --num-prompts {given.prompts}"
    words = ["bench-compare", "--context-file", task["context_file"], "--model", facts["model"]]
    words += ["--state", "a=main", "--state", "b=slow-decode", "--order", "interleaved", "--rounds", str(given.rounds)]
    words += ["--runs", str(given.runs), "--bench-args", f"{load} --max-concurrency 4 --ignore-eos"]
    begin = time.monotonic()
    answer = call(env, *words)
    took = time.monotonic() - begin
    run = Path(answer["report_paths"]["html"]).parent
    records = [json.loads(path.read_text("utf-8")) for path in sorted((run / "launches").glob("*.json"))]
    return took, [{**record["launch"], "runs": given.runs, "sha": record["state"]["sha"]} for record in records]


def by_hand(facts: dict[str, Any], launch: dict[str, Any]) -> float:
    """Run one launch's service and clients with their own commands; return the wall time of all of it.

    The checkout is made outside of the time. Units: seconds.
    """
    root, repo = Path(facts["root"]), str(facts["vllm_ascend_repo"])
    subprocess.run(["git", "-C", repo, "checkout", "--quiet", "--detach", launch["sha"]], check=True, timeout=60)
    begin = time.monotonic()
    # The simulated machine's own way in, so that the commands find the simulated programs and devices.
    ssh = ["ssh", "-i", facts["identity_file"], "-p", str(facts["port"]), "-o", "StrictHostKeyChecking=accept-new"]
    ssh += ["-o", f"UserKnownHostsFile={root / 'perf_known_hosts'}", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]
    ssh.append(f"{facts['user']}@127.0.0.1")
    port = int(launch["port"])
    serve = ["ASCEND_RT_VISIBLE_DEVICES=0", "exec", *map(quoted, launch["command"])]
    pid_file = root / "perf.pid"
    with subprocess.Popen(
        [*ssh, f"echo $$ > {pid_file}; {' '.join(serve)}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as service:
        wait_for(port)
        client = " ".join(map(quoted, launch["bench_command"]))
        for _ in range(launch["runs"]):
            subprocess.run(
                [*ssh, client], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=300
            )
        os.kill(int(pid_file.read_text("ascii")), signal.SIGINT)
        service.wait(60)
    took = time.monotonic() - begin
    subprocess.run(["git", "-C", repo, "checkout", "--quiet", "main"], check=True, timeout=60)
    return took


def quoted(word: str) -> str:
    """Return a word as a shell reads it."""
    return "'" + word.replace("'", "'\\''") + "'"


def wait_for(port: int) -> None:
    """Wait until a service of this machine is healthy.

    Raises: SystemExit after a minute.
    """
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            connection.request("GET", "/health")
            healthy = connection.getresponse().status == 200
            connection.close()
            if healthy:
                return
        time.sleep(0.05)
    raise SystemExit(f"the service on port {port} does not answer")


if __name__ == "__main__":
    raise SystemExit(main())

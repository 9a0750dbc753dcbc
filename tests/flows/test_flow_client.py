"""A benchmark client that hangs is ended, and says why."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from flow_world import CALL_BOUND_S, COMMAND, SMALL_BENCH, Task, World, surroundings, until


def api_server(world: World) -> int:
    """The pid of the one API server in the container."""
    pids = [pid for pid, line in world.vllm().items() if "/vllm serve" in line]
    assert len(pids) == 1, world.vllm()
    return pids[0]


def connections_of(pid: int) -> int:
    """How many established TCP connections lead to the ports that a process listens on."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    inodes = {str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()}
    ports = {row[1].split(":")[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in inodes}
    return sum(row[3] == "01" and row[1].split(":")[1] in ports for row in rows)


def test_a_client_behind_a_server_that_hangs_is_ended(world: World, task: Task) -> None:
    options = {"extra_env": "VAWS_SIM_FAULT=hang_on_stop", "stall_timeout": "2", "runs": "1"}
    words = world.compare_words(task, "slow=endless", "good=main", **options)
    with subprocess.Popen(
        [*COMMAND, *words],
        env=surroundings(world.state_dir),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as command:
        task.wait_for("bench", "slow")
        server = api_server(world)
        until(lambda: connections_of(server) > 0, 20, "the client has sent a request")
        os.kill(server, signal.SIGTERM)
        told = time.monotonic()
        out, _ = command.communicate(timeout=CALL_BOUND_S)
    answer = json.loads(out)
    assert answer["error"]["code"] == "bench_stalled", answer
    assert (answer["outcome"], answer["error"]["layer"]) == ("timeout", "remote_workload")
    assert "the service did not answer" in answer["error"]["message"]
    assert answer["partial_states"][0]["per_run"] == []
    assert time.monotonic() - told < 60
    world.assert_clean()


def test_an_iteration_says_what_was_asked_for_and_what_the_service_counted(world: World, task: Task) -> None:
    words = ["bench-run", "--context-file", task.context_file, "--model", world.facts["model"], "--runs", "1"]
    words += ["--bench-args", " ".join(SMALL_BENCH), "--serve-args"]
    words += ["""--speculative-config '{"method": "mtp", "num_speculative_tokens": 2}'"""]
    spoken = world.cli(*words)

    assert spoken.code == 0, spoken.answer
    (run,) = spoken.answer["per_run"]
    assert run["requests"] == {"asked": 4, "completed": 4, "failed": 0}
    assert (run["tokens"]["output_asked"], run["tokens"]["output"]) == (32, 32)
    counted = run["service_counted"]
    assert counted["generation_tokens"] >= 32
    assert counted["reset"] is False
    assert abs(counted["acceptance_rate"] - run["metrics"]["spec_decode_acceptance_rate"]) < 0.2
    assert len(run["spec_decode_per_position_acceptance_rates"]) == 2
    assert spoken.answer["launch"]["client_version"] == "0.32.0"
    world.assert_clean()
